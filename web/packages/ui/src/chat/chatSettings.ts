// What questions are asked with: each chat has settings of its own, and new chats begin with those
// of the user.

export interface ChatSettings {
  model: string; // "": whatever the server serves
  systemPrompt: string;
  temperature: number | null; // null: the model's own
  topP: number | null;
  mostTokens: number | null; // null: as long as the context allows
  seed: number | null; // null: another one each time
  tools: string; // functions for the model, as JSON; "": none
}

export function defaultSettings(): ChatSettings {
  return {
    model: "", systemPrompt: "", temperature: null, topP: null, mostTokens: null, seed: null,
    tools: "",
  };
}

type Saved = Partial<Record<keyof ChatSettings, unknown>>;

// Saved settings, checked field by field: what is not right is left at its default.
export function readSettings(saved: unknown): ChatSettings {
  if (typeof saved !== "object" || saved === null) return defaultSettings();
  const from = saved as Saved;
  return {
    model: text(from.model),
    systemPrompt: text(from.systemPrompt),
    temperature: within(from.temperature, 0, 2),
    topP: within(from.topP, 0, 1),
    mostTokens: whole(within(from.mostTokens, 1, 1e6)),
    seed: whole(within(from.seed, 0, Number.MAX_SAFE_INTEGER)),
    tools: text(from.tools),
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function within(value: unknown, least: number, most: number): number | null {
  return typeof value === "number" && value >= least && value <= most ? value : null;
}

function whole(value: number | null): number | null {
  return value !== null && Number.isInteger(value) ? value : null;
}

const kExample = '[{"type": "function", "function": {"name": "…"}}]';

// What is wrong with the tools that somebody typed, in a sentence; "" when nothing is.
export function toolsProblem(tools: string): string {
  if (tools.trim() === "") return "";
  let json: unknown;
  try {
    json = JSON.parse(tools);
  } catch {
    return `This is not JSON. Expected a list such as ${kExample}.`;
  }
  if (!Array.isArray(json)) return `This is no list. Expected ${kExample}.`;
  const at = json.findIndex((tool) => !isFunction(tool));
  return at < 0 ? "" : `Tool ${at + 1} is no function with a name. Expected ${kExample}.`;
}

function isFunction(tool: unknown): boolean {
  if (typeof tool !== "object" || tool === null || !("function" in tool)) return false;
  const called: unknown = tool.function;
  return typeof called === "object" && called !== null && "name" in called &&
    typeof called.name === "string" && called.name !== "";
}

// Makes a named key or a join token, and shows it once.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { CopyField, Notice } from "../elements/controls.tsx";
import type { KeyRole } from "./adminJson.ts";
import { roleWord } from "./words.ts";

// What POST /api/keys takes.
export interface WantedKey {
  name: string;
  role: KeyRole;
  expires?: string;
  per_minute?: number;
  tokens_per_day?: number;
}

// What was made: the secret, and the link that carries it where the role has one.
export interface MadeKey {
  name: string;
  secret: string;
  link: string; // "": none
}

const kRoles: readonly KeyRole[] = ["user", "helper", "metrics", "admin"];
const kEnds: readonly (readonly [string, string])[] = [
  ["", "never"], ["8h", "in 8 hours"], ["1d", "tomorrow"], ["30d", "in 30 days"],
  ["365d", "in a year"],
];

interface KeyFormProps {
  // Rejects with an Error whose message is a sentence.
  make: (wanted: WantedKey) => Promise<MadeKey>;
}

export function KeyForm({ make }: KeyFormProps): VNode {
  const [name, setName] = useState("");
  const [role, setRole] = useState<KeyRole>("user");
  const [expires, setExpires] = useState("");
  const [perMinute, setPerMinute] = useState("");
  const [tokensPerDay, setTokensPerDay] = useState("");
  const [made, setMade] = useState<MadeKey | null>(null);
  const [problem, setProblem] = useState("");
  const wanted = (): WantedKey => ({
    name: name.trim(), role,
    ...(expires === "" ? {} : { expires }),
    ...(perMinute === "" || role === "helper" ? {} : { per_minute: Number(perMinute) }),
    ...(tokensPerDay === "" || role === "helper" ? {} : { tokens_per_day: Number(tokensPerDay) }),
  });
  const send = async (): Promise<void> => {
    setMade(null);
    setProblem("");
    try {
      setMade(await make(wanted()));
      setName("");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <form class="stack" aria-label="Make a key" onSubmit={(event) => {
      event.preventDefault();
      void send();
    }}>
      <div class="admin-fields">
        <TextField label="Name" value={name} onInput={setName} />
        <SelectField label="For" value={role} options={kRoles.map((each) => [each, roleWord(each)])}
          onChange={(value) => setRole(kRoles.find((each) => each === value) ?? "user")} />
        <SelectField label="Ends" value={expires} options={kEnds} onChange={setExpires} />
        {role !== "helper" && (
          <>
            <NumberField label="Requests a minute" value={perMinute} onInput={setPerMinute} />
            <NumberField label="Tokens a day" value={tokensPerDay} onInput={setTokensPerDay} />
          </>
        )}
      </div>
      <div class="row">
        <button type="submit" class="button button-primary" disabled={name.trim() === ""}>
          Make it
        </button>
      </div>
      {problem !== "" && <p class="field-error" role="alert">{problem}</p>}
      {made && <MadeNotice made={made} />}
    </form>
  );
}

function MadeNotice({ made }: { made: MadeKey }): VNode {
  return (
    <Notice kind="info" title={`“${made.name}” was made. This is shown once.`} isAlert>
      <CopyField label="The key" text={made.secret} />
      {made.link !== "" && <CopyField label="The link with it" text={made.link} />}
    </Notice>
  );
}

interface FieldProps {
  label: string;
  value: string;
}

function TextField({ label, value, onInput }: FieldProps & {
  onInput: (value: string) => void;
}): VNode {
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      <input type="text" autocomplete="off" spellcheck={false} maxLength={64} value={value}
        onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}

function NumberField({ label, value, onInput }: FieldProps & {
  onInput: (value: string) => void;
}): VNode {
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      <input type="number" min="1" step="1" placeholder="no limit" value={value}
        onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}

function SelectField({ label, value, options, onChange }: FieldProps & {
  options: readonly (readonly [string, string])[];
  onChange: (value: string) => void;
}): VNode {
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([each, words]) => <option key={each} value={each}>{words}</option>)}
      </select>
    </label>
  );
}

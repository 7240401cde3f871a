// Conversations that chat templates are compared on: plain, with a system prompt, many turns,
// thinking, tools, odd texts.

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: 'Get the weather at a place.\nUse it for questions about "today" & tomorrow.',
    parameters: {
      type: "object",
      properties: {
        location: { type: "string", description: "City and country, e.g. Zürich, Switzerland" },
        unit: { type: "string", enum: ["celsius", "fahrenheit"], description: "Unit" },
        days: { type: "integer", description: "How many days ahead" },
        parts: { type: "array", items: { type: "string" }, description: "Which parts" },
      },
      required: ["location"],
    },
    return: { type: "string", description: "Weather as text" },
  },
};
const clock = {
  type: "function",
  function: {
    name: "current_time",
    description: "Tell the time.",
    parameters: { type: "object", properties: {}, required: [] },
  },
};
const call = (id, name, args) => ({ id, type: "function", function: { name, arguments: args } });

const hello = [{ role: "user", content: "Hello, who are you?" }];
const system = { role: "system", content: "You are a careful assistant.\nAnswer briefly." };
const turns = [
  { role: "user", content: "What is 2+2?" },
  { role: "assistant", content: "4" },
  { role: "user", content: "  And 3+3? \n" },
];
const thoughts = [
  { role: "user", content: "Think about 7*8." },
  {
    role: "assistant",
    content: "<think>\nSeven eights are 56.\n</think>\n\nIt is 56.",
    reasoning_content: "Seven eights are 56.",
  },
  { role: "user", content: "And 8*9?" },
];
const reasoning = [
  { role: "user", content: "Think about 7*8." },
  {
    role: "assistant",
    content: "It is 56.",
    reasoning_content: "Seven eights are 56.",
    thinking: "Seven eights are 56.",
  },
  { role: "user", content: "And 8*9?" },
];
const asked = { role: "user", content: "How is the weather in Zürich?" };
const oneCall = {
  role: "assistant",
  content: "",
  tool_calls: [
    call("call00001", "get_weather", {
      location: "Zürich, Switzerland",
      days: 2,
      parts: ["sky", "wind"],
    }),
  ],
};
const result = {
  role: "tool",
  tool_call_id: "call00001",
  name: "get_weather",
  content: '{"temperature": 21.5, "sky": "clear"}',
};
const toolTurn = [asked, oneCall, result];
const stringArguments = [
  asked,
  {
    ...oneCall,
    tool_calls: [call("call00001", "get_weather", '{"location": "Zürich, Switzerland"}')],
  },
  result,
];
const noContent = [asked, { ...oneCall, content: null }, result];
const twoCalls = [
  asked,
  {
    role: "assistant",
    content: "Let me look.",
    reasoning_content: "I need two tools.",
    tool_calls: [
      call("call00001", "get_weather", { location: "Zürich" }),
      call("call00002", "current_time", {}),
    ],
  },
  result,
  { role: "tool", tool_call_id: "call00002", name: "current_time", content: "12:30" },
  { role: "assistant", content: "It is 12:30 and clear." },
  { role: "user", content: "Thanks!" },
];
const parts = [
  {
    role: "user",
    content: [
      { type: "text", text: "First part." },
      { type: "text", text: " Second part." },
    ],
  },
];
const odd = [
  {
    role: "user",
    content: '{{ 7 * 7 }} {% raw %} <|im_end|> "quotes" \\n \u2028 👩‍👩‍👧‍👦 <b>&amp;</b> \t end',
  },
];

const ask = (messages, extra = {}) => ({ messages, add_generation_prompt: true, ...extra });

export const conversations = {
  user: ask(hello),
  system: ask([system, ...hello]),
  turns: ask([system, ...turns]),
  finished: {
    messages: [...turns, { role: "assistant", content: "6" }],
    add_generation_prompt: false,
  },
  thoughts: ask(thoughts),
  reasoning: ask([system, ...reasoning], { enable_thinking: true }),
  no_thinking: ask(hello, { enable_thinking: false, thinking: false, reasoning_effort: "low" }),
  tools: ask([asked], { tools: [weather, clock] }),
  tools_system: ask([system, asked], { tools: [weather] }),
  tool_turn: ask(toolTurn, { tools: [weather] }),
  tool_turn_system: ask([system, ...toolTurn], { tools: [weather, clock], enable_thinking: true }),
  tool_string_arguments: ask(stringArguments, { tools: [weather] }),
  tool_no_content: ask(noContent, { tools: [weather] }),
  two_calls: ask(twoCalls, { tools: [weather, clock] }),
  parts: ask(parts),
  odd: ask(odd, { custom_kwarg: "x", date_string: "26 Jul 2024" }),
};

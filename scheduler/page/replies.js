// What recorded calls say: replies of models in the forms of the shipped agents, the frameworks and the providers, and
// which call of a reply a tool was called for. The log has no arguments: they stand in the reply before.

/** The tool with which a shipped agent gives its answer. */
export const FINAL_ANSWER = "final_answer";
/** Characters of arguments whose digest is made: of one call, and of one conversation. */
const DIGEST_MAX = 20_000;
const DIGESTS_MAX = 200_000;
/** Calls of one reply that are shown, and how deep their arguments may be. */
const CALLS_MAX = 200;
const DEPTH_MAX = 64;

const textOf = (part) => (typeof part === "string" ? part : part.text ?? (typeof part.content === "string" ? part.content : ""));
const isText = (part) => typeof part === "string" || ["text", "output_text"].includes(part.type || part.part_kind);
const isThought = (part) => ["thinking", "reasoning"].includes(part?.type || part?.part_kind);

/** The call that a part of a reply is, in any of the forms. */
function callOf(part) {
  const own = part?.function || part;
  const name = own?.name || part?.tool_name || part?.toolName;
  const given = own?.arguments ?? own?.args ?? own?.input ?? part?.input;
  const isCall = ["tool-call", "tool_call", "tool_use", "function", "function_call"].includes(part?.type || part?.part_kind) || given !== undefined;
  return name && isCall ? { id: part.id || part.call_id || part.tool_call_id || part.toolCallId || "", name: String(name), given, arguments: parsed(given) } : null;
}

/** The JSON of a text; the text itself where it is none, or so deep that nothing could draw it. */
export function parsed(given) {
  if (typeof given !== "string") return given;
  try {
    const value = JSON.parse(given || "{}");
    return isDeep(value) ? given : value;
  } catch { return given; }
}

function isDeep(value) {
  let level = [value], depth = 0;
  for (; level.length && depth <= DEPTH_MAX; depth += 1) level = level.flatMap((one) => (one !== null && typeof one === "object" ? Object.values(one) : []));
  return level.length > 0;
}

const replies = new WeakMap();

/**
 * The reply of a model: `{text, thoughts, calls, further, model, isCut}`; null for what is none.
 *
 * - `further`: calls that are too many to show.
 *
 * @param {any} outcome
 */
export function readReply(outcome) {
  if (outcome === null || typeof outcome !== "object" || outcome.$blob) return null;
  if (!replies.has(outcome)) replies.set(outcome, newReply(outcome));
  return replies.get(outcome);
}

function newReply(outcome) {
  const message = outcome.choices?.[0]?.message || (outcome.type === "ai" && outcome.data) || outcome;
  const listed = [message.parts, message.output, message.content].find(Array.isArray) || [];
  const parts = listed.flatMap((part) => (part && part.type === "message" && Array.isArray(part.content) ? part.content : [part])).filter(Boolean);
  const calls = [...(Array.isArray(message.tool_calls) ? message.tool_calls : []), ...parts].map(callOf).filter(Boolean);
  const whole = typeof message.text === "string" ? message.text : typeof message.content === "string" ? message.content : undefined;
  // A part and the list of calls may both have a call.
  const known = new Set();
  const unique = calls.filter((call) => !call.id || !known.has(call.id) && known.add(call.id));
  const model = outcome.model || outcome.model_name || message.response_metadata?.model_name || message.response_metadata?.model || "";
  if (whole === undefined && !parts.some((part) => isText(part) || isThought(part)) && !unique.length) return null;
  return { text: whole ?? parts.filter(isText).map(textOf).join("\n"), thoughts: parts.filter(isThought).map(textOf).join("\n"), calls: unique.slice(0, CALLS_MAX), further: Math.max(0, unique.length - CALLS_MAX), model: String(model), isCut: Boolean(outcome.is_cut), isShipped: "is_text" in outcome };
}

/** What the log has as the inputs of a call with these: FNV-1a of 128 bits. */
export function digest(text) {
  let hash = 0x6c62272e07bb014262b821756295c58dn;
  for (const byte of new TextEncoder().encode(text)) hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * 0x0000000001000000000000000000013bn);
  return hash.toString(16).padStart(32, "0");
}

const digests = new WeakMap();
function digestOf(one) {
  if (!digests.has(one)) digests.set(one, digest(one.given));
  return digests.get(one);
}

/** What names a call in the log: all that a continued plan took over stand in one event. */
export const callKey = ({ seq, n }) => `${seq}-${n}`;
/** `search` of `tool search` and of `approve search`. */
export const toolName = (call) => call.name.replace(/^(tool|approve) /, "");
export const isModel = (call) => call.name === "model" || Boolean(call.usage && !/^tool /.test(call.name));

/**
 * The calls of one conversation with what each replied or was called with: `{call, reply, outcome, asked, fitting}`.
 *
 * - `wholes`: Map of the keys of calls to outcomes that are stored apart and were loaded.
 * - `fitting`: how many calls of replies may be the one; `asked` is only the one that it must be.
 */
export function conversation(calls, wholes) {
  // What is asked for and not yet made: by tool, and by tool and digest.
  const open = new Map(), byDigest = new Map();
  let left = DIGESTS_MAX, further = 0;
  const add = (map, key, one) => { if (!map.has(key)) map.set(key, new Set()); map.get(key).add(one); };
  const note = (one) => {
    add(open, one.name, one);
    if (typeof one.given !== "string" || one.given.length >= DIGEST_MAX || one.given.length > left) return;
    left -= one.given.length;
    add(byDigest, `${one.name} ${digestOf(one)}`, one);
  };
  return calls.map((call) => {
    const outcome = wholes.get(callKey(call)) ?? call.outcome;
    const reply = isModel(call) ? readReply(outcome) : null;
    reply?.calls.forEach(note);
    further += reply?.further || 0;
    if (reply || isModel(call)) return { call, outcome, reply };
    const same = byDigest.get(`${toolName(call)} ${(call.inputs || "").split("#")[0]}`);
    const all = open.get(toolName(call));
    const fitting = (all?.size || 0) + (all?.size ? further : 0);
    const [asked] = same?.size ? same : fitting === 1 ? all : [];
    // The decision about a call comes before the call.
    if (asked && !call.name.startsWith("approve ")) {
      all.delete(asked);
      byDigest.get(`${asked.name} ${digests.get(asked)}`)?.delete(asked);
    }
    return { call, outcome, reply: null, asked, fitting };
  });
}

/** What a tool gave: the shipped agents put it beside whether it went well. */
export function resultOf(outcome) {
  const isWrapped = outcome !== null && typeof outcome === "object" && typeof outcome.ok === "boolean" && "tool" in outcome;
  if (!isWrapped) return { value: outcome, error: "" };
  return outcome.ok ? { value: outcome.data, error: "", cutAt: outcome.cut_at_bytes } : { value: undefined, error: String(outcome.error) };
}

// Forms made from JSON schemas: a field for each value, what is wrong with it in plain words, and the value that was given.

import { capital } from "./format.js";

/** Objects inside objects that get fields of their own; what is deeper is JSON. */
const DEPTH_MAX = 3;
const FIELDS_MAX = 60;

/** What is wrong with the fields of a form, by name. */
export class FieldErrors extends Error {
  constructor(fields) {
    super("not complete");
    this.fields = fields;
  }
}

const written = (value) => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));
const typeOf = (schema) => (Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type);
const hasProperties = (schema, depth) => depth < DEPTH_MAX && typeOf(schema) === "object" && Object.keys(schema.properties || {}).length > 0;
const fieldCount = (schema, depth) => (hasProperties(schema, depth) ? Object.values(schema.properties).reduce((sum, inner) => sum + fieldCount(inner || {}, depth + 1), 0) : 1);
/** Whether an object has a field for each of its values; one with too many is JSON. */
const hasFields = (schema, depth) => hasProperties(schema, depth) && (depth > 0 || fieldCount(schema, 0) <= FIELDS_MAX);
/** Whether a list can be written with one item on each line. */
const isOfLines = (items) => items.every((item) => { const text = written(item); return text !== "" && text === text.trim() && !text.includes("\n") && !text.startsWith("["); });
/** A name as a part of a JSON pointer. */
const part = (key) => `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
const mayBeNull = (schema) => Array.isArray(schema.type) && schema.type.includes("null");
const choicesOf = (schema) => (Array.isArray(schema.enum) ? schema.enum : schema.const !== undefined ? [schema.const] : typeOf(schema) === "boolean" ? [true, false, ...(mayBeNull(schema) ? [null] : [])] : null);
/** A choice as a text of its own: as JSON where it would be empty, or read like another one. */
const choiceText = (value, choices) => (written(value).trim() && choices.filter((one) => written(one) === written(value)).length < 2 ? written(value) : JSON.stringify(value));
/** The text of the choice that is given; nothing where none of them is. */
const givenChoice = (value, choices) => (value !== undefined && choices.some((one) => JSON.stringify(one) === JSON.stringify(value)) ? choiceText(value, choices) : "");
const isSimpleList = (schema) => typeOf(schema) === "array" && ["string", "number", "integer"].includes(typeOf(schema.items || {}));

/** `from 1 to 9`, `at least 1`, `at most 9`. */
function range(least, most, unit = "") {
  if (least !== undefined && most !== undefined) return `from ${least} to ${most}${unit}`;
  return least !== undefined ? `at least ${least}${unit}` : most !== undefined ? `at most ${most}${unit}` : "";
}

/** What a value may be, in words. */
function expectation(schema) {
  const type = typeOf(schema);
  if (choicesOf(schema)) return "";
  if (type === "integer") return ["a whole number", range(schema.minimum, schema.maximum)].filter(Boolean).join(" ");
  if (type === "number") return ["a number", range(schema.minimum, schema.maximum)].filter(Boolean).join(" ");
  if (type === "string") return range(schema.minLength, schema.maxLength, " characters");
  if (isSimpleList(schema)) return "one on each line";
  if (type === "array") return "JSON: a list";
  if (type === "object") return "JSON: an object";
  return "a text, or JSON";
}

/**
 * The fields of a value, for a dialog.
 *
 * @param {any} schema
 * @param {{name: string, pointer: string, label?: string, given?: any, isRequired?: boolean}} place
 *
 * - `name`: of the value in the form, and of its fields; `pointer`: where the value stands in the request, so that refusals are
 *   shown at the field; `given`: what is filled in, by default the default of the schema.
 */
export function schemaFields(schema, { name, label, pointer, given, isRequired = true }) {
  const fields = [];
  const add = (one, path, title, at, value, isNeeded, depth) => {
    if (hasFields(one, depth)) {
      for (const [key, inner] of Object.entries(one.properties)) add(inner || {}, path + part(key), title && depth ? `${title}: ${key}` : key, at + part(key), value?.[key] === undefined ? inner?.default : value[key], isNeeded && (one.required || []).includes(key) && inner?.default === undefined, depth + 1);
      return;
    }
    const type = typeOf(one), choices = choicesOf(one);
    const kind = choices ? { options: choices.map((one) => choiceText(one, choices)) } : ["integer", "number"].includes(type) ? { type: "number", isWhole: type === "integer", min: one.minimum, max: one.maximum } : type === "string" && !(one.maxLength > 200) ? {} : isSimpleList(one) ? { type: "text" } : { type: "text", code: type !== "string" && Boolean(type) };
    const shown = choices ? givenChoice(value, choices) : isSimpleList(one) && Array.isArray(value) && isOfLines(value) ? value.join("\n") : written(value);
    fields.push({ name: path, label: `${title || label}${isNeeded ? "" : " (optional)"}`, value: shown, pointer: at, schema: one, required: isNeeded, isOptional: !isNeeded, hint: [capital(one.description || ""), expectation(one) && capital(expectation(one))].filter(Boolean).map((text) => text.replace(/\.$/, "")).join(". "), ...kind });
  };
  add(schema, name, label, pointer, given ?? schema.default, isRequired, 0);
  return fields;
}

/** The value that the fields give; throws what is wrong with them. */
export function readSchema(schema, name, values, isRequired = true) {
  const wrong = {};
  const read = (one, path, isNeeded, depth) => {
    if (hasFields(one, depth)) {
      const given = Object.entries(one.properties).map(([key, inner]) => [key, read(inner || {}, path + part(key), isNeeded && (one.required || []).includes(key), depth + 1)]).filter(([, value]) => value !== undefined);
      return given.length || isNeeded ? Object.fromEntries(given) : undefined;
    }
    const [value, fault] = parseField(one, values[path] ?? "", isNeeded);
    if (fault) wrong[path] = fault;
    return value;
  };
  const value = read(schema, name, isRequired, 0);
  if (Object.keys(wrong).length) throw new FieldErrors(wrong);
  return value;
}

/** The value of a text, or what is wrong with it. */
function parseField(schema, text, isNeeded) {
  const type = typeOf(schema), choices = choicesOf(schema);
  if (text.trim() === "") return isNeeded && schema.default === undefined ? [undefined, choices ? "Choose one." : "Fill this in."] : [undefined];
  if (choices) {
    const found = choices.findIndex((value) => choiceText(value, choices) === text);
    return found < 0 ? [undefined, "Choose one."] : [choices[found]];
  }
  if (type === "integer" || type === "number") return parseNumber(schema, Number(text), type === "integer");
  if (type === "string") return parseText(schema, text);
  if (isSimpleList(schema) && !text.trim().startsWith("[")) return parseLines(schema, text);
  if (!type && text === schema.default) return [text];
  try {
    const value = JSON.parse(text);
    // A number that would be another one stays a text.
    if (!type && typeof value === "number" && String(value) !== text.trim()) return [text];
    const isOfType = !type || (type === "array" ? Array.isArray(value) : type === "object" ? value !== null && typeof value === "object" && !Array.isArray(value) : true);
    return isOfType ? [value] : [undefined, `Write ${type === "array" ? "a list, such as [1, 2]" : "an object, such as {\"a\": 1}"}.`];
  } catch { return type ? [undefined, `This is no JSON: write ${type === "array" ? "a list, such as [1, 2]" : "an object, such as {\"a\": 1}"}.`] : [text]; }
}

function parseNumber({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }, value, isWhole) {
  if (!Number.isFinite(value)) return [undefined, "Give a number."];
  if (isWhole && !Number.isInteger(value)) return [undefined, "Give a whole number."];
  if (isWhole && !Number.isSafeInteger(value)) return [undefined, "A form cannot write so large a number: send it by the command line."];
  if (value < minimum || value > maximum) return [undefined, `Give a number ${range(minimum, maximum)}.`];
  if (value <= exclusiveMinimum) return [undefined, `Give a number above ${exclusiveMinimum}.`];
  if (value >= exclusiveMaximum) return [undefined, `Give a number below ${exclusiveMaximum}.`];
  if (multipleOf > 0 && Math.abs(value / multipleOf - Math.round(value / multipleOf)) > 1e-9) return [undefined, `Give a multiple of ${multipleOf}.`];
  return [value];
}

/** Patterns are left to the scheduler: one that an agent sends may need any amount of time here. */
function parseText({ minLength, maxLength }, text) {
  const { length } = [...text];
  if (length < minLength || length > maxLength) return [undefined, `Give ${range(minLength, maxLength, " characters")}; these are ${length}.`];
  return [text];
}

function parseLines(schema, text) {
  const items = [];
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const [value, fault] = parseField(schema.items, line, true);
    if (fault) return [undefined, `${line}: ${fault}`];
    items.push(value);
  }
  if (items.length < schema.minItems || items.length > schema.maxItems) return [undefined, `Give ${range(schema.minItems, schema.maxItems)} of them; these are ${items.length}.`];
  return [items];
}

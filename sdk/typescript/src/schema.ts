// Schemas: any library that implements Standard Schema validates, and gives the JSON Schema of the card if it can.

import { Fatal } from './errors.js';

/** A JSON Schema. */
export type JsonSchema = { [keyword: string]: unknown };

/** What validation libraries implement (https://standardschema.dev, version 1; MIT). */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** What a validation gives. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly (PropertyKey | { key: PropertyKey })[] | undefined }[] };

/** The value as the schema gives it; a `Fatal` that lists the issues if it does not match. @internal */
export async function validate<T>(schema: StandardSchema<unknown, T>, value: unknown, what: string, code: string): Promise<T> {
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return result.value;
  const lines = result.issues.slice(0, 10).map(({ message, path }) => {
    const at = (path ?? []).map((part) => String(typeof part === 'object' ? part.key : part)).join('/');
    return at === '' ? message : `\`/${at}\`: ${message}`;
  });
  throw new Fatal(`${what}: ${lines.join('; ')}`, { code });
}

/** The JSON Schema that the library of `schema` gives; none if it gives none. @internal */
export function jsonSchemaOf(schema: StandardSchema<any, any> | undefined, side: 'input' | 'output'): JsonSchema | undefined {
  if (schema === undefined) return undefined;
  const standard = schema['~standard'] as { jsonSchema?: Record<string, (options: { target: string }) => JsonSchema> };
  const vendor = schema as { toJSONSchema?: () => JsonSchema; toJsonSchema?: () => JsonSchema };
  try {
    const made = standard.jsonSchema?.[side]?.({ target: 'draft-2020-12' }) ?? vendor.toJSONSchema?.() ?? vendor.toJsonSchema?.();
    return made === undefined ? undefined : (JSON.parse(JSON.stringify(made)) as JsonSchema);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new TypeError(`the schema of ${schema['~standard'].vendor} has no JSON Schema (${why}); give one by hand as \`${side}Schema\``);
  }
}

import type { Result } from '../result.ts';
export type Json = null | boolean | number | string | Json[] | {
    [key: string]: Json;
};
export type JsonBounds = {
    readonly bytes: number;
    readonly depth: number;
    readonly nodes: number;
};
export declare const BODY_BOUNDS: JsonBounds;
/** An evidence file contains the arguments of a body, and more around them. */
export declare const EVIDENCE_BOUNDS: JsonBounds;
export declare function parseJson(bytes: Uint8Array, bounds?: JsonBounds): Result<Json>;
/**
 * RFC 8785. The value comes from `parseJson` or from our code: finite numbers, well-formed strings.
 */
export declare function canonical(value: unknown): string;
export declare const sha256: (bytes: string | Uint8Array) => string;
/** SHA-256 over the canonical form: the digest of any structured value. */
export declare const digestOf: (value: unknown) => string;

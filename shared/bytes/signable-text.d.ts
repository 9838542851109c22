/** The longest texts in an execution. */
export declare const SIGNED_TEXT_CHARS: {
    readonly detail: 500;
    readonly host: 260;
    readonly left: 600;
};
/** Replaces NUL and lone surrogates by U+FFFD and truncates without splitting a surrogate pair. */
export declare function toSignableText(text: string, most: number): string;

export type Destination = {
    readonly host: string;
    readonly port: number;
};
/**
 * `host[:port]` matches that host; `.suffix[:port]` matches all names below it, but not the suffix.
 * It is compared label by label (N07), and never matches an IP address.
 */
export declare function matchesHost(pattern: string, { host, port }: Destination): boolean;
export declare const isListed: (patterns: readonly string[], to: Destination) => boolean;

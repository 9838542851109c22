import type { Plan } from '../plan/plan.ts';
import type { Grant, Statement } from './statement.ts';
/** The name of each check, as a list of checks shows it. */
export declare const CHECK_NAMES: {
    readonly subject: 'the subject is this call';
    readonly id: 'the attestation’s id is this call’s';
    readonly facts: 'the facts are those of the grant';
    readonly grant: 'the grant is the edge’s, for this call and worker';
    readonly ending: 'the ending fits the outcome';
    readonly digest: 'the execution digest fits';
    readonly tier: 'it ran in the sandbox that the plan names, or at the edge if it is a skill';
    readonly started: 'profile, command line and output fit whether anything was started';
    readonly counted: 'it had a cgroup if the plan requires one, and only if the worker had proven cgroups';
    readonly limits: 'it ran within the plan’s limits';
    readonly output: 'the output is described consistently, and kept if the plan says so';
    readonly connections: 'connections were allowed only to the plan’s hosts';
    readonly times: 'it ran within the time of its grant';
};
export type CheckKey = keyof typeof CHECK_NAMES;
/** `at`: the field, as a JSON pointer into the statement. */
export type Contradiction = {
    readonly at: string;
    readonly what: CheckKey;
};
/** `now_ms`: the edge's clock. Only the edge sets it. */
export type Evidence = {
    readonly grant: Grant | null;
    readonly plan: Plan | null;
    readonly now_ms?: number;
};
export declare const contradictions: (statement: Statement, against: Evidence) => Contradiction[];

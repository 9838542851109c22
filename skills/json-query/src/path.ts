// The parsed form of a path.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

export type Path = { readonly from: '$' | '@'; readonly segments: readonly Segment[] }
/** `deep`: applies to the value and to everything inside it. */
export type Segment = { readonly deep: boolean; readonly selectors: readonly Selector[] }
export type Selector =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'index'; readonly index: number }
  | {
      readonly kind: 'slice'
      readonly start: number | undefined
      readonly end: number | undefined
      readonly step: number
    }
  | { readonly kind: 'all' }
  | { readonly kind: 'filter'; readonly test: Test }

export type Test =
  | { readonly kind: 'or' | 'and'; readonly of: readonly Test[] }
  | { readonly kind: 'not'; readonly of: Test }
  | { readonly kind: 'exists'; readonly path: Path }
  | { readonly kind: 'compare'; readonly operator: Operator; readonly left: Operand; readonly right: Operand }
export type Operator = '==' | '!=' | '<' | '<=' | '>' | '>='
export type Operand =
  | { readonly kind: 'value'; readonly value: Json }
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'length' | 'count' | 'value-of'; readonly path: Path }

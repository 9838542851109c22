// One version of a skill, for the operator who decides whether it may run: its permissions, what is
// new compared with the enabled version, warnings, its origin and its history, and the forms to
// enable, disable, roll back or revoke it.

import { type RollBack, type Skill, toolName } from '../../shared/wire/skills.ts'
import { Prose, Time } from '../pages/approval-page.tsx'
import { escapeConfusables } from '../platform/visible-text.ts'
import { ConsolePage, FormToken } from './frame.tsx'
import { ReasonField } from './reason-field.tsx'
import type { Session } from './session.ts'
import { limitsOf, powersOf, reachOf, unguarded } from './skill-permissions.ts'
import { Denied, LOOK, pathOf } from './skills-page.tsx'

/**
 * The actions that this operator may take on it now. `own`: they published it, and policy requires
 * somebody else.
 */
export type May = { readonly enable: boolean; readonly disable: boolean; readonly own: boolean }
type SkillPageInput = {
  readonly session: Session
  readonly skill: Skill
  /** The enabled version, if it is another one. */
  readonly beside: Skill | null
  /** The change that a rollback would make. */
  readonly before: RollBack | null
  readonly may: May
}

export function skillPage({ session, skill, beside, before, may }: SkillPageInput) {
  const { id, version, state, manifest, published_by, published_at_ms, denied } = skill
  return (
    <ConsolePage title={`${id} ${version}`} session={session}>
      <a class="back" href="/console/skills">
        Back to the skills
      </a>
      <h1>
        {id} {version}
      </h1>
      <p class="tags">
        <span class={`tag ${LOOK[state]}`} role="status">
          {state}
        </span>
        <span class="quiet">
          published by {published_by}, <Time ms={published_at_ms} />
        </span>
      </p>
      <p>{escapeConfusables(manifest.description)}</p>
      {denied.length === 0 ? '' : <Denied denied={denied} />}
      <Powers skill={skill} beside={beside} />
      <Warnings skill={skill} />
      <Tools skill={skill} />
      <Origin skill={skill} />
      <Changes skill={skill} />
      <Actions session={session} skill={skill} before={before} may={may} />
    </ConsolePage>
  )
}

function Powers({ skill: { manifest }, beside }: Pick<SkillPageInput, 'skill' | 'beside'>) {
  const powers = powersOf(manifest, beside?.manifest)
  const known = beside === null ? powers : powersOf(beside.manifest)
  return (
    <section aria-labelledby="powers">
      <h2 id="powers">What it may do</h2>
      {reachOf(manifest).length === 0 ? (
        <p>It can only compute: it reaches no host, stores nothing and reads no secret.</p>
      ) : (
        ''
      )}
      <ul class="sentences">
        {powers.map((one) => (
          <li>
            <Prose text={one} />
            {known.includes(one) ? '' : <span class="tag medium">new</span>}
          </li>
        ))}
      </ul>
      {beside === null ? '' : <Beside powers={powers} known={known} manifest={manifest} beside={beside} />}
      <p class="quiet">Each call uses at most {limitsOf(manifest)}. Policy also decides on each call.</p>
    </section>
  )
}

type ComparisonInput = {
  readonly powers: string[]
  readonly known: string[]
  readonly manifest: Skill['manifest']
  readonly beside: Skill
}
function Beside({ powers, known, manifest, beside }: ComparisonInput) {
  const removed = known.filter((one) => !powers.includes(one))
  return (
    <>
      {unguarded(manifest, beside.manifest).map((one) => (
        <p class="alert changed">
          <Prose text={one} />.
        </p>
      ))}
      <p class="quiet">
        Compared with <a href={pathOf(beside)}>{beside.version}</a>, which is enabled,{' '}
        {powers.every((one) => known.includes(one))
          ? 'it asks for nothing new'
          : 'it asks for the permissions marked as new'}
        {removed.length === 0 ? '.' : ', and no longer for:'}
      </p>
      {removed.length === 0 ? (
        ''
      ) : (
        <ul class="sentences quiet">
          {removed.map((one) => (
            <li>
              <Prose text={one} />
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Warnings({ skill: { warnings } }: Pick<SkillPageInput, 'skill'>) {
  return (
    <section aria-labelledby="warnings">
      <h2 id="warnings">Warnings</h2>
      {warnings.length === 0 ? (
        <p>None: it uses every permission that it asks for, and declares what it returns.</p>
      ) : (
        <ul class="sentences">
          {warnings.map(({ code, detail }) => (
            <li>
              <Prose text={detail} /> <code>{code}</code>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function Tools({ skill: { id, manifest } }: Pick<SkillPageInput, 'skill'>) {
  return (
    <section aria-labelledby="tools">
      <h2 id="tools">Tools</h2>
      <dl>
        {manifest.tools.map(
          ({ name, description, sensitive, risk, idempotent, input_schema, output_schema }) => (
            <>
              <dt>
                <code>{toolName(id, name)}</code>
                {sensitive === true ? ' · sensitive' : ''}
                {risk === undefined ? '' : ` · at least ${risk} risk, as stated by its publisher`}
                {idempotent === true ? ' · idempotent' : ''}
              </dt>
              <dd>
                {escapeConfusables(description)}
                <details>
                  <summary>Schemas of {name}</summary>
                  <pre>{escapeConfusables(JSON.stringify(input_schema, null, 2))}</pre>
                  {output_schema === undefined ? (
                    ''
                  ) : (
                    <pre>{escapeConfusables(JSON.stringify(output_schema, null, 2))}</pre>
                  )}
                </details>
              </dd>
            </>
          ),
        )}
      </dl>
    </section>
  )
}

function Origin({ skill }: Pick<SkillPageInput, 'skill'>) {
  const { digest, manifest, component, modules, contents, signed_by, pinned_by, imports } = skill
  const { provenance, sbom, parts } = contents
  return (
    <section aria-labelledby="origin">
      <h2 id="origin">Origin</h2>
      <dl>
        <dt>Signed by</dt>
        <dd>
          {manifest.publisher}, with the key <code>{signed_by}</code>
          {pinned_by === undefined
            ? ''
            : `, which was not known before: ${pinned_by} pinned it when publishing this package`}
        </dd>
        <dt>Built by, as stated by its publisher</dt>
        <dd>
          <code>{escapeConfusables(provenance.builder)}</code>,{' '}
          <code>{escapeConfusables(provenance.build_type)}</code>
        </dd>
        <dt>Made of, as stated by its publisher</dt>
        <dd>
          {parts.length === 0
            ? 'nothing is listed'
            : parts
                .slice(0, SHOWN_PARTS)
                .map(({ name, version }, index) => (
                  <>{`${index === 0 ? '' : ', '}${escapeConfusables(name)} ${escapeConfusables(version)}`}</>
                ))}
          {parts.length > SHOWN_PARTS ? ` and ${parts.length - SHOWN_PARTS} more` : ''}
        </dd>
      </dl>
      <details>
        <summary>Digests</summary>
        <dl>
          <dt>Signed package</dt>
          <dd>
            <code>{digest}</code>
          </dd>
          <dt>Component, {component.bytes.toLocaleString('en')} bytes</dt>
          <dd>
            <code>{component.sha256}</code>
          </dd>
          <dt>Bill of materials, {sbom.bytes.toLocaleString('en')} bytes</dt>
          <dd>
            <code>{sbom.sha256}</code>
          </dd>
          <dt>Provenance, {provenance.bytes.toLocaleString('en')} bytes</dt>
          <dd>
            <code>{provenance.sha256}</code>
          </dd>
          {modules.map(({ name, sha256, bytes }) => (
            <>
              <dt>
                Module that runs: {name}, {bytes.toLocaleString('en')} bytes
              </dt>
              <dd>
                <code>{sha256}</code>
              </dd>
            </>
          ))}
          <dt>Imports</dt>
          <dd>{imports.length === 0 ? 'none' : imports.join(', ')}</dd>
        </dl>
      </details>
    </section>
  )
}
const SHOWN_PARTS = 40

function Changes({ skill: { changes } }: Pick<SkillPageInput, 'skill'>) {
  return (
    <section aria-labelledby="changes">
      <h2 id="changes">History</h2>
      {changes.length === 0 ? <p>Nobody has enabled, disabled or revoked it yet.</p> : ''}
      <ul class="sentences">
        {changes.map(({ from, to, by, at_ms, reason }) => (
          <li>
            {to} by <strong>{by}</strong>, <Time ms={at_ms} />; before: {from}
            {reason === '' ? '' : `: ${escapeConfusables(reason)}`}
          </li>
        ))}
      </ul>
    </section>
  )
}

/** "Disable" comes before "Enable", and the form to revoke, which is final, is folded. */
function Actions({ session, skill, before, may }: Omit<SkillPageInput, 'beside'>) {
  const { state, denied } = skill
  const path = pathOf(skill)
  if (state === 'revoked')
    return <p class="alert">This version is revoked for good. Publish another version to replace it.</p>
  if (!may.enable && !may.disable) return <p class="quiet">You may read skills but not change them.</p>
  const enables = may.enable && state !== 'enabled' && denied.length === 0
  return (
    <form method="post" action={`${path}/disable`}>
      <FormToken session={session} />
      <h2>Actions</h2>
      {state !== 'enabled' && may.own ? (
        <p class="alert changed">You published this version, so somebody else has to enable it.</p>
      ) : (
        ''
      )}
      <ReasonField help="Optional. It is kept on record with your name." />
      <div class="buttons doing">
        {may.disable && state === 'enabled' ? (
          <button type="submit" class="deny">
            Disable
          </button>
        ) : (
          ''
        )}
        {may.enable && state === 'enabled' && before !== null ? (
          <>
            <input type="hidden" name="from" value={before.from ?? ''} />
            <input type="hidden" name="to" value={before.to} />
            <button type="submit" class="show" formaction={`/console/skills/${skill.id}/rollback`}>
              Roll back to {before.to}
            </button>
          </>
        ) : (
          ''
        )}
        {enables && !may.own ? (
          <button type="submit" class="approve" formaction={`${path}/enable`}>
            Enable
          </button>
        ) : (
          ''
        )}
      </div>
      {may.disable ? (
        <details>
          <summary>Revoke for good</summary>
          <p>A revoked version can never be enabled again. Its calls are denied from then on.</p>
          <div class="buttons">
            <button type="submit" class="deny" formaction={`${path}/revoke`}>
              Revoke
            </button>
          </div>
        </details>
      ) : (
        ''
      )}
    </form>
  )
}

// One version of a skill, for whoever is to say whether it may run: what it does and may do, what is new beside the version that is enabled,
// what was found, who signed and published it, and what became of it. Each thing that can be done is a form of its own.

import { LIMITS } from '../../shared/limits.ts'
import type { RollBack, Skill } from '../../shared/wire/skills.ts'
import { Prose, Time } from '../pages/approval-page.tsx'
import { written } from '../platform/visible-text.ts'
import { ConsolePage, FormToken } from './frame.tsx'
import type { Session } from './session.ts'
import { limitsOf, powersOf, reachOf, unguarded } from './skill-permissions.ts'
import { Denied, LOOK, pathOf } from './skills-page.tsx'

/** What this operator may do with it now; `own`: they published it, and policy wants somebody else. */
export type May = { readonly enable: boolean; readonly disable: boolean; readonly own: boolean }
type Shown = {
  readonly session: Session
  readonly skill: Skill
  /** The version that is enabled, where it is another one. */
  readonly beside: Skill | null
  /** What a rollback would do. */
  readonly before: RollBack | null
  readonly may: May
}

export function skillPage({ session, skill, beside, before, may }: Shown) {
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
      <p>{written(manifest.description)}</p>
      {denied.length === 0 ? '' : <Denied denied={denied} />}
      <Powers skill={skill} beside={beside} />
      <Warnings skill={skill} />
      <Tools skill={skill} />
      <Origin skill={skill} />
      <Changes skill={skill} />
      <Doing session={session} skill={skill} before={before} may={may} />
    </ConsolePage>
  )
}

function Powers({ skill: { manifest }, beside }: Pick<Shown, 'skill' | 'beside'>) {
  const powers = powersOf(manifest, beside?.manifest)
  const known = beside === null ? powers : powersOf(beside.manifest)
  return (
    <section aria-labelledby="powers">
      <h2 id="powers">What it may do</h2>
      {reachOf(manifest).length === 0 ? (
        <p>Nothing but compute: it reaches nobody, keeps nothing and reads no secret.</p>
      ) : (
        ''
      )}
      <ul class="told">
        {powers.map((one) => (
          <li>
            <Prose text={one} />
            {known.includes(one) ? '' : <span class="tag medium">new</span>}
          </li>
        ))}
      </ul>
      {beside === null ? '' : <Beside powers={powers} known={known} manifest={manifest} beside={beside} />}
      <p class="quiet">
        Each call takes {limitsOf(manifest)} at the most. Policy decides each call on top of that.
      </p>
    </section>
  )
}

type Compared = {
  readonly powers: string[]
  readonly known: string[]
  readonly manifest: Skill['manifest']
  readonly beside: Skill
}
function Beside({ powers, known, manifest, beside }: Compared) {
  const gone = known.filter((one) => !powers.includes(one))
  return (
    <>
      {unguarded(manifest, beside.manifest).map((one) => (
        <p class="alert changed">
          <Prose text={one} />.
        </p>
      ))}
      <p class="quiet">
        Beside <a href={pathOf(beside)}>{beside.version}</a>, which is enabled,{' '}
        {powers.every((one) => known.includes(one))
          ? 'it asks for nothing new'
          : 'it asks for what is marked as new'}
        {gone.length === 0 ? '.' : ', and this is gone:'}
      </p>
      {gone.length === 0 ? (
        ''
      ) : (
        <ul class="told quiet">
          {gone.map((one) => (
            <li>
              <Prose text={one} />
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Warnings({ skill: { warnings } }: Pick<Shown, 'skill'>) {
  return (
    <section aria-labelledby="warnings">
      <h2 id="warnings">What to look at</h2>
      {warnings.length === 0 ? (
        <p>Nothing was found: it uses what it asks for, and says what it returns.</p>
      ) : (
        <ul class="told">
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

function Tools({ skill: { id, manifest } }: Pick<Shown, 'skill'>) {
  return (
    <section aria-labelledby="tools">
      <h2 id="tools">Its tools</h2>
      <dl>
        {manifest.tools.map(
          ({ name, description, sensitive, risk, idempotent, input_schema, output_schema }) => (
            <>
              <dt>
                <code>{`${id}.${name}`}</code>
                {sensitive === true ? ' · sensitive' : ''}
                {risk === undefined ? '' : ` · ${risk} risk at least, its publisher says`}
                {idempotent === true ? ' · can be repeated' : ''}
              </dt>
              <dd>
                {written(description)}
                <details>
                  <summary>Schemas of {name}</summary>
                  <pre>{written(JSON.stringify(input_schema, null, 2))}</pre>
                  {output_schema === undefined ? (
                    ''
                  ) : (
                    <pre>{written(JSON.stringify(output_schema, null, 2))}</pre>
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

function Origin({ skill }: Pick<Shown, 'skill'>) {
  const { digest, manifest, component, modules, contents, signed_by, pinned_by, imports } = skill
  const { provenance, sbom, parts } = contents
  return (
    <section aria-labelledby="origin">
      <h2 id="origin">Where it comes from</h2>
      <dl>
        <dt>Signed by</dt>
        <dd>
          {manifest.publisher}, with the key <code>{signed_by}</code>
          {pinned_by === undefined
            ? ''
            : `, which nobody had vouched for: ${pinned_by} had it pinned with this package`}
        </dd>
        <dt>Built by, as its publisher says</dt>
        <dd>
          <code>{written(provenance.builder)}</code>, <code>{written(provenance.build_type)}</code>
        </dd>
        <dt>Made of, as its publisher says</dt>
        <dd>
          {parts.length === 0
            ? 'nothing is listed'
            : parts
                .slice(0, SHOWN_PARTS)
                .map(({ name, version }, index) => (
                  <>{`${index === 0 ? '' : ', '}${written(name)} ${written(version)}`}</>
                ))}
          {parts.length > SHOWN_PARTS ? ` and ${parts.length - SHOWN_PARTS} more` : ''}
        </dd>
      </dl>
      <details>
        <summary>Digests</summary>
        <dl>
          <dt>Package, as it was signed</dt>
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
                What runs: {name}, {bytes.toLocaleString('en')} bytes
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

function Changes({ skill: { changes } }: Pick<Shown, 'skill'>) {
  return (
    <section aria-labelledby="changes">
      <h2 id="changes">What became of it</h2>
      {changes.length === 0 ? <p>Nobody has decided on it yet.</p> : ''}
      <ul class="told">
        {changes.map(({ from, to, by, at_ms, reason }) => (
          <li>
            {to} by <strong>{by}</strong>, <Time ms={at_ms} />; it was {from}
            {reason === '' ? '' : `: ${written(reason)}`}
          </li>
        ))}
      </ul>
    </section>
  )
}

/** No comes before yes, and what can’t be taken back is folded. */
function Doing({ session, skill, before, may }: Omit<Shown, 'beside'>) {
  const { state, denied } = skill
  const path = pathOf(skill)
  if (state === 'revoked')
    return <p class="alert">It is revoked, for good. Another version can be published.</p>
  if (!may.enable && !may.disable)
    return <p class="quiet">You may look at skills, and not change what runs.</p>
  const enables = may.enable && state !== 'enabled' && denied.length === 0
  return (
    <form method="post" action={`${path}/disable`}>
      <FormToken session={session} />
      <h2>What to do</h2>
      {state !== 'enabled' && may.own ? (
        <p class="alert changed">You published it: somebody else is to enable it.</p>
      ) : (
        ''
      )}
      <div class="field">
        <label for="why">Reason</label>
        <textarea
          id="why"
          name="reason"
          rows={2}
          maxlength={LIMITS.reason_chars}
          aria-describedby="why-help"
        ></textarea>
        <span class="quiet" id="why-help">
          It is kept on record, with your name.
        </span>
      </div>
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
              Go back to {before.to}
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
          <summary>Revoke it for good</summary>
          <p>Nobody can enable a version that is revoked, ever again. Its calls are denied from then on.</p>
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

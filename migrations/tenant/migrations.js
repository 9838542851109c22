import journal from './meta/_journal.json';
import m0000 from './0000_agents_tools_and_workers.sql';
import m0001 from './0001_policy_activations.sql';
import m0002 from './0002_policy_shadow.sql';
import m0003 from './0003_console_sessions.sql';
import m0004 from './0004_standing_answers.sql';
import m0005 from './0005_approval_waits.sql';
import m0006 from './0006_inbox_groups.sql';
import m0007 from './0007_inbox_changed.sql';
import m0008 from './0008_inbox_listed.sql';
import m0009 from './0009_secrets.sql';
import m0010 from './0010_worker_proofs.sql';
import m0011 from './0011_secret_hosts.sql';
import m0012 from './0012_files_held.sql';
import m0013 from './0013_former_secrets.sql';
import m0014 from './0014_skills.sql';
import m0015 from './0015_publishers_and_skill_journal.sql';
import m0016 from './0016_denied_parts.sql';
import m0017 from './0017_worker_copies.sql';
import m0018 from './0018_tenant_state_and_quota.sql';
import m0019 from './0019_agent_webhooks.sql';
import m0020 from './0020_token_issuers.sql';
import m0021 from './0021_upstreams.sql';
import m0022 from './0022_upstream_journal.sql';
import m0023 from './0023_shared_runs.sql';
import m0024 from './0024_export_target.sql';
import m0025 from './0025_retention.sql';
import m0026 from './0026_worker_keys.sql';
import m0027 from './0027_tenant_journal.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002,
m0003,
m0004,
m0005,
m0006,
m0007,
m0008,
m0009,
m0010,
m0011,
m0012,
m0013,
m0014,
m0015,
m0016,
m0017,
m0018,
m0019,
m0020,
m0021,
m0022,
m0023,
m0024,
m0025,
m0026,
m0027
    }
  }
  
import journal from './meta/_journal.json';
import m0000 from './0000_channels_and_deliveries.sql';
import m0001 from './0001_delegations.sql';
import m0002 from './0002_skill_notices.sql';
import m0003 from './0003_agent_webhooks.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002,
m0003
    }
  }
  
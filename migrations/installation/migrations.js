import journal from './meta/_journal.json';
import m0000 from './0000_tenants_and_journal.sql';
import m0001 from './0001_tenants_accepted.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001
    }
  }
  
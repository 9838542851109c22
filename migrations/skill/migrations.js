import journal from './meta/_journal.json';
import m0000 from './0000_entries_and_usage.sql';
import m0001 from './0001_skill_storage_reserved.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001
    }
  }
  
import journal from './meta/_journal.json';
import m0000 from './0000_entries_and_usage.sql';

  export default {
    journal,
    migrations: {
      m0000
    }
  }
  
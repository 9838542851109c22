import journal from './meta/_journal.json';
import m0000 from './0000_calls_and_journal.sql';
import m0001 from './0001_snapshots.sql';
import m0002 from './0002_run_folder.sql';
import m0003 from './0003_files.sql';
import m0004 from './0004_clients_of_calls.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002,
m0003,
m0004
    }
  }
  
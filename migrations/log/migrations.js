import journal from './meta/_journal.json';
import m0000 from './0000_leaves_and_nodes.sql';
import m0001 from './0001_leaves_shadow.sql';
import m0002 from './0002_listed_calls_and_runs.sql';
import m0003 from './0003_object_sizes.sql';
import m0004 from './0004_witnesses.sql';

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
  
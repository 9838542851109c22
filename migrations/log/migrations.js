import journal from './meta/_journal.json';
import m0000 from './0000_leaves_and_nodes.sql';
import m0001 from './0001_leaves_shadow.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001
    }
  }
  
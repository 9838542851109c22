import journal from './meta/_journal.json';
import m0000 from './0000_adorable_shinko_yamashiro.sql';
import m0001 from './0001_nostalgic_fenris.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001
    }
  }
  
import journal from './meta/_journal.json';
import m0000 from './0000_adorable_shinko_yamashiro.sql';
import m0001 from './0001_nostalgic_fenris.sql';
import m0002 from './0002_nostalgic_omega_sentinel.sql';
import m0003 from './0003_massive_lady_ursula.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002,
m0003
    }
  }
  
import journal from './meta/_journal.json';
import m0000 from './0000_shiny_black_tarantula.sql';
import m0001 from './0001_known_lionheart.sql';
import m0002 from './0002_harsh_lady_ursula.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002
    }
  }
  
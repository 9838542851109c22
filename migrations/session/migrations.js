import journal from './meta/_journal.json';
import m0000 from './0000_totals_and_open_calls.sql';
import m0001 from './0001_standing_answers.sql';
import m0002 from './0002_asks.sql';
import m0003 from './0003_questions.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002,
m0003
    }
  }
  
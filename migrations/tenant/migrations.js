import journal from './meta/_journal.json';
import m0000 from './0000_init.sql';
import m0001 from './0001_policy_activations.sql';
import m0002 from './0002_policy_shadow.sql';
import m0003 from './0003_strange_slapstick.sql';
import m0004 from './0004_abnormal_thor.sql';
import m0005 from './0005_special_texas_twister.sql';
import m0006 from './0006_windy_meggan.sql';
import m0007 from './0007_yellow_star_brand.sql';
import m0008 from './0008_hot_mephistopheles.sql';
import m0009 from './0009_fine_slapstick.sql';
import m0010 from './0010_tired_squadron_supreme.sql';
import m0011 from './0011_ambitious_harry_osborn.sql';
import m0012 from './0012_wise_turbo.sql';
import m0013 from './0013_clear_spacker_dave.sql';
import m0014 from './0014_fair_millenium_guard.sql';
import m0015 from './0015_small_lester.sql';
import m0016 from './0016_familiar_aqueduct.sql';
import m0017 from './0017_handy_turbo.sql';
import m0018 from './0018_keen_firebird.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002,
m0003,
m0004,
m0005,
m0006,
m0007,
m0008,
m0009,
m0010,
m0011,
m0012,
m0013,
m0014,
m0015,
m0016,
m0017,
m0018
    }
  }
  
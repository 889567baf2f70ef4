//! What servers of four versions said when they were brought to refuse, word for word: whoever adds a row asks all of them.
//! The tests beside this one ask the version that is installed.

use super::{Expected, comes_to};
use crate::backend::FaultKind::{
    Credentials, Other, OutOfMemory, Permission, ReadOnly, ScriptDisabled, Unready, WrongType,
};

const WAIT: Expected = (Unready, false, true);
const READ_ONLY: Expected = (ReadOnly, false, true);
const UNKNOWN: Expected = (Credentials, false, false);
const DENIED: Expected = (Permission, false, false);
const DENIED_INSIDE: Expected = (Permission, true, false);
const WRONG_TYPE: Expected = (WrongType, false, false);
const WRONG_TYPE_INSIDE: Expected = (WrongType, true, false);
const FULL: Expected = (OutOfMemory, false, false);
const NO_SCRIPTS: Expected = (ScriptDisabled, false, false);
const OTHER: Expected = (Other, false, false);
const OTHER_INSIDE: Expected = (Other, true, false);

type Row = (Expected, &'static str);

/// Redis 6.2.14.
#[rustfmt::skip]
const REDIS_6_2: &[Row] = &[
    (OTHER, "NOSCRIPT No matching script. Please use EVAL."),
    (UNKNOWN, "NOAUTH Authentication required."),
    (UNKNOWN, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"),
    (UNKNOWN, "WRONGPASS invalid username-password pair or user is disabled."),
    (UNKNOWN, "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"),
    (DENIED, "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand"),
    (DENIED, "NOPERM this user has no permissions to run the 'subscribe' command or its subcommand"),
    (DENIED, "NOPERM this user has no permissions to access one of the keys used as arguments"),
    (DENIED, "NOPERM this user has no permissions to access one of the channels used as arguments"),
    (DENIED_INSIDE, "ERR Error running script (call to f_71923a30a2cad96b7271cad5b0fdb4d5a1dd868c): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand"),
    (DENIED_INSIDE, "@user_script: 1: The user executing the script can't run this command or subcommand"),
    (DENIED_INSIDE, "ERR Error running script (call to f_efac1706cb54fdcf57f6d40ec382b60da663d6d4): @user_script:1: @user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments"),
    (DENIED_INSIDE, "ERR Error running script (call to f_b6fdf38cf295210166256acec0d6c23faaddcfdb): @user_script:1: @user_script: 1: The user executing the script can't publish to the channel mentioned in the command"),
    (WRONG_TYPE, "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (WRONG_TYPE_INSIDE, "ERR Error running script (call to f_18cba4488128aba82fa56e01503e9bea8a471422): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value"),
    (FULL, "OOM command not allowed when used memory > 'maxmemory'."),
    (FULL, "ERR Error running script (call to f_ce1abcd420baf996deb8fcd29ebb5858654f3a5c): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'."),
    (READ_ONLY, "READONLY You can't write against a read only replica."),
    (READ_ONLY, "ERR Error running script (call to f_ce1abcd420baf996deb8fcd29ebb5858654f3a5c): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica."),
    (READ_ONLY, "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk. Commands that may modify the data set are disabled, because this instance is configured to report"),
    (READ_ONLY, "ERR Error running script (call to f_ce1abcd420baf996deb8fcd29ebb5858654f3a5c): @user_script:1: @user_script: 1: -MISCONF Redis is configured to save RDB snapshots, but it is currently not able to"),
    (WAIT, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
    (WAIT, "NOREPLICAS Not enough good replicas to write."),
    (WAIT, "ERR Error running script (call to f_ce1abcd420baf996deb8fcd29ebb5858654f3a5c): @user_script:1: @user_script: 1: -NOREPLICAS Not enough good replicas to write."),
    (WAIT, "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
    (WAIT, "ERR Error running script (call to f_694a5fe1ddb97a4c6a1bf299d9537c7d3d0f84e7): @user_script:1: Script killed by user with SCRIPT KILL..."),
    (WAIT, "ERR max number of clients reached"),
    (WAIT, "CLUSTERDOWN Hash slot not served"),
    (OTHER, "NOTBUSY No scripts in execution right now."),
    (OTHER, "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."),
    (NO_SCRIPTS, "ERR unknown command `EVALSHA`, with args beginning with: `0000000000000000000000000000000000000000`, `1`, `k`, "),
    (NO_SCRIPTS, "ERR unknown command `EVAL`, with args beginning with: `return 1`, `0`, "),
    (OTHER, "ERR unknown command `SUBSCRIBE`, with args beginning with: `c`, "),
    (OTHER_INSIDE, "ERR Error running script (call to f_ce1abcd420baf996deb8fcd29ebb5858654f3a5c): @user_script:1: @user_script: 1: Unknown Redis command called from Lua script"),
    (OTHER_INSIDE, "ERR Error running script (call to f_2c8d7484c50c310edcccf78587cab96d63abb018): @user_script:1: user_script:1: Script attempted to access nonexistent global variable 'nothing'"),
];

/// Redis 7.0.15.
#[rustfmt::skip]
const REDIS_7_0: &[Row] = &[
    (OTHER, "NOSCRIPT No matching script. Please use EVAL."),
    (UNKNOWN, "NOAUTH Authentication required."),
    (UNKNOWN, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"),
    (UNKNOWN, "WRONGPASS invalid username-password pair or user is disabled."),
    (UNKNOWN, "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"),
    (DENIED, "NOPERM this user has no permissions to run the 'evalsha' command"),
    (DENIED, "NOPERM this user has no permissions to run the 'subscribe' command"),
    (DENIED, "NOPERM this user has no permissions to access one of the keys used as arguments"),
    (DENIED, "NOPERM this user has no permissions to access one of the channels used as arguments"),
    (DENIED_INSIDE, "ERR The user executing the script can't run this command or subcommand script: 71923a30a2cad96b7271cad5b0fdb4d5a1dd868c, on @user_script:1."),
    (DENIED_INSIDE, "ERR The user executing the script can't run this command or subcommand"),
    (DENIED_INSIDE, "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: efac1706cb54fdcf57f6d40ec382b60da663d6d4, on @user_script:1."),
    (DENIED_INSIDE, "ERR The user executing the script can't publish to the channel mentioned in the command script: b6fdf38cf295210166256acec0d6c23faaddcfdb, on @user_script:1."),
    (WRONG_TYPE, "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (WRONG_TYPE_INSIDE, "WRONGTYPE Operation against a key holding the wrong kind of value script: 18cba4488128aba82fa56e01503e9bea8a471422, on @user_script:1."),
    (FULL, "OOM command not allowed when used memory > 'maxmemory'."),
    (FULL, "OOM command not allowed when used memory > 'maxmemory'. script: ce1abcd420baf996deb8fcd29ebb5858654f3a5c, on @user_script:1."),
    (READ_ONLY, "READONLY You can't write against a read only replica."),
    (READ_ONLY, "READONLY You can't write against a read only replica. script: ce1abcd420baf996deb8fcd29ebb5858654f3a5c, on @user_script:1."),
    (READ_ONLY, "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report"),
    (READ_ONLY, "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report"),
    (WAIT, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
    (WAIT, "NOREPLICAS Not enough good replicas to write."),
    (WAIT, "NOREPLICAS Not enough good replicas to write. script: ce1abcd420baf996deb8fcd29ebb5858654f3a5c, on @user_script:1."),
    (WAIT, "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
    (WAIT, "ERR Script killed by user with SCRIPT KILL... script: 694a5fe1ddb97a4c6a1bf299d9537c7d3d0f84e7, on @user_script:1."),
    (WAIT, "ERR max number of clients reached"),
    (WAIT, "CLUSTERDOWN Hash slot not served"),
    (OTHER, "NOTBUSY No scripts in execution right now."),
    (OTHER, "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."),
    (NO_SCRIPTS, "ERR unknown command 'EVALSHA', with args beginning with: '0000000000000000000000000000000000000000' '1' 'k' "),
    (NO_SCRIPTS, "ERR unknown command 'EVAL', with args beginning with: 'return 1' '0' "),
    (OTHER, "ERR unknown command 'SUBSCRIBE', with args beginning with: 'c' "),
    (OTHER_INSIDE, "ERR Unknown Redis command called from script script: ce1abcd420baf996deb8fcd29ebb5858654f3a5c, on @user_script:1."),
    (OTHER_INSIDE, "ERR user_script:1: Script attempted to access nonexistent global variable 'nothing' script: 2c8d7484c50c310edcccf78587cab96d63abb018, on @user_script:1."),
];

/// Redis 8.2.3.
#[rustfmt::skip]
const REDIS_8_2: &[Row] = &[
    (OTHER, "NOSCRIPT No matching script. Please use EVAL."),
    (UNKNOWN, "NOAUTH Authentication required."),
    (UNKNOWN, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"),
    (UNKNOWN, "WRONGPASS invalid username-password pair or user is disabled."),
    (UNKNOWN, "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"),
    (DENIED, "NOPERM User w has no permissions to run the 'evalsha' command"),
    (DENIED, "NOPERM User w has no permissions to run the 'subscribe' command"),
    (DENIED, "NOPERM No permissions to access a key"),
    (DENIED, "NOPERM No permissions to access a channel"),
    (DENIED_INSIDE, "ERR ACL failure in script: User w has no permissions to run the 'del' command script: 71923a30a2cad96b7271cad5b0fdb4d5a1dd868c, on @user_script:1."),
    (DENIED_INSIDE, "ERR ACL failure in script: User w has no permissions to run the 'pexpire' command"),
    (DENIED_INSIDE, "ERR ACL failure in script: No permissions to access a key script: efac1706cb54fdcf57f6d40ec382b60da663d6d4, on @user_script:1."),
    (DENIED_INSIDE, "ERR ACL failure in script: No permissions to access a channel script: b6fdf38cf295210166256acec0d6c23faaddcfdb, on @user_script:1."),
    (WRONG_TYPE, "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (WRONG_TYPE_INSIDE, "WRONGTYPE Operation against a key holding the wrong kind of value script: 18cba4488128aba82fa56e01503e9bea8a471422, on @user_script:1."),
    (FULL, "OOM command not allowed when used memory > 'maxmemory'."),
    (FULL, "OOM command not allowed when used memory > 'maxmemory'. script: ce1abcd420baf996deb8fcd29ebb5858654f3a5c, on @user_script:1."),
    (READ_ONLY, "READONLY You can't write against a read only replica."),
    (READ_ONLY, "READONLY You can't write against a read only replica. script: ce1abcd420baf996deb8fcd29ebb5858654f3a5c, on @user_script:1."),
    (READ_ONLY, "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report"),
    (READ_ONLY, "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report"),
    (WAIT, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
    (WAIT, "NOREPLICAS Not enough good replicas to write."),
    (WAIT, "NOREPLICAS Not enough good replicas to write. script: ce1abcd420baf996deb8fcd29ebb5858654f3a5c, on @user_script:1."),
    (WAIT, "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
    (WAIT, "ERR Script killed by user with SCRIPT KILL... script: 694a5fe1ddb97a4c6a1bf299d9537c7d3d0f84e7, on @user_script:1."),
    (WAIT, "ERR max number of clients reached"),
    (WAIT, "CLUSTERDOWN Hash slot not served"),
    (OTHER, "NOTBUSY No scripts in execution right now."),
    (OTHER, "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."),
    (NO_SCRIPTS, "ERR unknown command 'EVALSHA', with args beginning with: '0000000000000000000000000000000000000000' '1' 'k' "),
    (NO_SCRIPTS, "ERR unknown command 'EVAL', with args beginning with: 'return 1' '0' "),
    (OTHER, "ERR unknown command 'SUBSCRIBE', with args beginning with: 'c' "),
    (OTHER_INSIDE, "ERR Unknown Redis command called from script script: ce1abcd420baf996deb8fcd29ebb5858654f3a5c, on @user_script:1."),
    (OTHER_INSIDE, "ERR user_script:1: Script attempted to access nonexistent global variable 'nothing' script: 2c8d7484c50c310edcccf78587cab96d63abb018, on @user_script:1."),
];

/// Valkey 9.1.2.
#[rustfmt::skip]
const VALKEY_9_1: &[Row] = &[
    (OTHER, "NOSCRIPT No matching script."),
    (UNKNOWN, "NOAUTH Authentication required."),
    (UNKNOWN, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"),
    (UNKNOWN, "WRONGPASS invalid username-password pair or user is disabled."),
    (UNKNOWN, "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"),
    (DENIED, "NOPERM User w has no permissions to run the 'evalsha' command"),
    (DENIED, "NOPERM User w has no permissions to run the 'subscribe' command"),
    (DENIED, "NOPERM No permissions to access a key"),
    (DENIED, "NOPERM No permissions to access a channel"),
    (DENIED_INSIDE, "ERR ACL failure in script: User w has no permissions to run the 'del' command script: on @user_script:1."),
    (DENIED_INSIDE, "ERR ACL failure in script: User w has no permissions to run the 'pexpire' command"),
    (DENIED_INSIDE, "ERR ACL failure in script: No permissions to access a key script: on @user_script:1."),
    (DENIED_INSIDE, "ERR ACL failure in script: No permissions to access a channel script: on @user_script:1."),
    (WRONG_TYPE, "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (WRONG_TYPE_INSIDE, "WRONGTYPE Operation against a key holding the wrong kind of value script: on @user_script:1."),
    (FULL, "OOM command not allowed when used memory > 'maxmemory'."),
    (FULL, "OOM command not allowed when used memory > 'maxmemory'. script: on @user_script:1."),
    (READ_ONLY, "READONLY You can't write against a read only replica."),
    (READ_ONLY, "READONLY You can't write against a read only replica. script: on @user_script:1."),
    (READ_ONLY, "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report"),
    (READ_ONLY, "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report"),
    (WAIT, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
    (WAIT, "NOREPLICAS Not enough good replicas to write."),
    (WAIT, "NOREPLICAS Not enough good replicas to write. script: on @user_script:1."),
    (WAIT, "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
    (WAIT, "ERR Script killed by user with SCRIPT KILL. script: on @user_script:1."),
    (WAIT, "ERR max number of clients reached"),
    (WAIT, "CLUSTERDOWN Hash slot not served"),
    (OTHER, "NOTBUSY No scripts in execution right now."),
    (OTHER, "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."),
    (NO_SCRIPTS, "ERR unknown command 'EVALSHA', with args beginning with: '0000000000000000000000000000000000000000' '1' 'k' "),
    (NO_SCRIPTS, "ERR unknown command 'EVAL', with args beginning with: 'return 1' '0' "),
    (OTHER, "ERR unknown command 'SUBSCRIBE', with args beginning with: 'c' "),
    (OTHER_INSIDE, "ERR Unknown command called from script script: on @user_script:1."),
    (OTHER_INSIDE, "ERR user_script:1: Script attempted to access nonexistent global variable 'nothing' script: on @user_script:1."),
];

#[test]
fn what_each_of_four_versions_said_is_understood() {
    let versions = [REDIS_6_2, REDIS_7_0, REDIS_8_2, VALKEY_9_1];
    for (expected, words) in versions.into_iter().flatten() {
        comes_to(words, *expected);
    }
    assert!(versions.iter().all(|said| said.len() == REDIS_6_2.len()), "each was asked the same");
}

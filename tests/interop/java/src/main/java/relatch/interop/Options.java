package relatch.interop;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.NameMapper;
import org.redisson.config.ReadMode;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * The program's arguments, "--key value", and the clients that they describe: one, unless its servers are apart. What is not named is Redisson's default.
 *
 * <ul>
 *   <li>--mode single | masterslave | cluster | sentinel | apart
 *   <li>--redis host:port[,host:port…]: the server, the master, some nodes, the sentinels, or servers that are apart: each of those
 *       gets a client of its own
 *   <li>--name NAME: what the client calls itself on the server
 *   <li>--watchdog MS, --prefix TEXT (a name mapper), --timeout MS, --retry N, --subscription-timeout MS
 *   <li>--sharded AUTO | ON | OFF (cluster), --master NAME (sentinel)
 * </ul>
 */
final class Options {
    private final Map<String, String> given = new HashMap<>();

    Options(String[] args) {
        for (int i = 0; i < args.length; i += 2) {
            if (!args[i].startsWith("--") || i + 1 == args.length) {
                throw new IllegalArgumentException("expected --option value, got " + args[i]);
            }
            given.put(args[i].substring(2), args[i + 1]);
        }
    }

    private String text(String key, String otherwise) {
        return given.getOrDefault(key, otherwise);
    }

    private int number(String key, int otherwise) {
        return given.containsKey(key) ? Integer.parseInt(given.get(key)) : otherwise;
    }

    List<RedissonClient> connect() {
        String[] addresses = text("redis", "127.0.0.1:6379").split(",");
        if (text("mode", "single").equals("apart")) {
            return Arrays.stream(addresses).map(address -> connect("single", address)).toList();
        }
        return List.of(connect(text("mode", "single"), addresses));
    }

    private RedissonClient connect(String mode, String... addresses) {
        Config config = new Config();
        config.setLockWatchdogTimeout(number("watchdog", 30000));
        // Many of these programs run on one small machine: as few threads as Redisson can do with.
        config.setThreads(4);
        config.setNettyThreads(4);
        String prefix = text("prefix", "");
        if (!prefix.isEmpty()) {
            config.setNameMapper(prefixing(prefix));
        }
        BaseConfig<?> servers = servers(config, mode, addresses);
        servers.setClientName(given.get("name"));
        servers.setTimeout(number("timeout", 3000));
        servers.setRetryAttempts(number("retry", 4));
        servers.setSubscriptionTimeout(number("subscription-timeout", 7500));
        return Redisson.create(config);
    }

    private BaseConfig<?> servers(Config config, String mode, String[] addresses) {
        switch (mode) {
            case "single":
                return config.useSingleServer().setAddress("redis://" + addresses[0])
                    .setConnectionMinimumIdleSize(2).setDnsMonitoringInterval(-1);
            case "masterslave":
                return config.useMasterSlaveServers().setMasterAddress("redis://" + addresses[0])
                    .setReadMode(ReadMode.MASTER).setMasterConnectionMinimumIdleSize(2).setDnsMonitoringInterval(-1);
            case "cluster": {
                ClusterServersConfig cluster = config.useClusterServers().setMasterConnectionMinimumIdleSize(2);
                for (String address : addresses) {
                    cluster.addNodeAddress("redis://" + address);
                }
                return cluster.setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(text("sharded", "AUTO")));
            }
            case "sentinel": {
                SentinelServersConfig sentinels = config.useSentinelServers().setMasterName(text("master", "mymaster"))
                    .setMasterConnectionMinimumIdleSize(2).setCheckSentinelsList(false);
                for (String address : addresses) {
                    sentinels.addSentinelAddress("redis://" + address);
                }
                return sentinels;
            }
            default:
                throw new IllegalArgumentException("no mode is called " + mode);
        }
    }

    private static NameMapper prefixing(String prefix) {
        return new NameMapper() {
            @Override
            public String map(String name) {
                return prefix + name;
            }

            @Override
            public String unmap(String name) {
                return name.startsWith(prefix) ? name.substring(prefix.length()) : name;
            }
        };
    }
}

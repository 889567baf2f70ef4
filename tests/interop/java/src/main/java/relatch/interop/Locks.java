package relatch.interop;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Everything that is an RLock. The words of each verb are {@code KIND NAME [NUMBER…]}, times in milliseconds:
 *
 * <ul>
 *   <li>{@code lock [LEASE]}, {@code tryLock [WAIT [LEASE]]}: without a lease the watchdog renews
 *   <li>{@code unlock}, {@code forceUnlock}
 *   <li>{@code isLocked}, {@code isHeldByThread}, {@code holdCount}, {@code ttl}
 *   <li>{@code token}: of a fenced lock, the newest
 *   <li>{@code again TIMES PAUSE}: so often lock, unlock and a pause
 * </ul>
 *
 * KIND is {@code plain}, {@code fair} or {@code fenced}; another kind is one more case. So is {@code multi}, of plain locks with
 * commas between their names, and {@code red}, of the plain locks of one name at all servers; both know nothing but to lock and to
 * unlock. {@code plain:N} is a plain lock at the N-th of several servers, counted from 0.
 */
final class Locks {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final List<RedissonClient> servers;
    // One object a lock, since Redisson keeps the last lease in it.
    private final Map<String, RLock> made = new ConcurrentHashMap<>();

    Locks(List<RedissonClient> servers) {
        this.servers = servers;
    }

    Object run(String verb, List<String> words) throws InterruptedException {
        RLock lock = lock(words.get(0), words.get(1));
        long[] numbers = words.stream().skip(2).mapToLong(Long::parseLong).toArray();
        switch (verb) {
            case "lock":
                if (numbers.length == 0) {
                    lock.lock();
                } else {
                    lock.lock(numbers[0], MS);
                }
                return true;
            case "tryLock":
                switch (numbers.length) {
                    case 0:
                        return lock.tryLock();
                    case 1:
                        return lock.tryLock(numbers[0], MS);
                    default:
                        return lock.tryLock(numbers[0], numbers[1], MS);
                }
            case "unlock":
                lock.unlock();
                return true;
            case "forceUnlock":
                return lock.forceUnlock();
            case "isLocked":
                return lock.isLocked();
            case "isHeldByThread":
                return lock.isHeldByThread(Thread.currentThread().getId());
            case "holdCount":
                return lock.getHoldCount();
            case "ttl":
                return lock.remainTimeToLive();
            case "token":
                return ((RFencedLock) lock).getToken();
            case "again":
                for (long done = 0; done < numbers[0]; done++) {
                    lock.lock();
                    lock.unlock();
                    Thread.sleep(numbers[1]);
                }
                return true;
            default:
                throw new IllegalArgumentException("no verb is called " + verb);
        }
    }

    RLock lock(String kind, String name) {
        return made.computeIfAbsent(kind + " " + name, key -> {
            String[] at = kind.split(":");
            RedissonClient redisson = servers.get(at.length == 1 ? 0 : Integer.parseInt(at[1]));
            switch (at[0]) {
                case "plain":
                    return redisson.getLock(name);
                case "fair":
                    return redisson.getFairLock(name);
                case "fenced":
                    return redisson.getFencedLock(name);
                case "multi":
                    return redisson.getMultiLock(Arrays.stream(name.split(",")).map(redisson::getLock).toArray(RLock[]::new));
                case "red":
                    return new RedissonRedLock(servers.stream().map(server -> server.getLock(name)).toArray(RLock[]::new));
                default:
                    throw new IllegalArgumentException("no lock is called " + kind);
            }
        });
    }
}

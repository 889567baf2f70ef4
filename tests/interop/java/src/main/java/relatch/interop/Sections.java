package relatch.interop;

import java.io.IOException;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RLock;

/**
 * Sections of one lock, over and over: {@code sections KIND NAME FOLDER LOG UNTIL SECTION PAUSE}. The same as `sections` in
 * tests/it/interop/crowd.rs, which says what the files are. UNTIL is a reading of the monotonic clock in nanoseconds;
 * SECTION and PAUSE are microseconds, the longest ones.
 */
final class Sections {
    private final Locks locks;

    Sections(Locks locks) {
        this.locks = locks;
    }

    /** How many sections there were. */
    Object go(List<String> words) throws IOException, InterruptedException {
        RLock lock = locks.lock(words.get(0), words.get(1));
        Path folder = Path.of(words.get(2));
        long until = Long.parseLong(words.get(4));
        long section = Long.parseLong(words.get(5));
        long pause = Long.parseLong(words.get(6));
        long sections = 0;
        try (RandomAccessFile file = new RandomAccessFile(folder.resolve("counter").toFile(), "rw");
            PrintStream log = new PrintStream(folder.resolve(words.get(3)).toFile(), StandardCharsets.UTF_8)) {
            FileChannel counter = file.getChannel();
            while (System.nanoTime() < until) {
                long asked = System.nanoTime();
                lock.lock();
                long began = System.nanoTime();
                ByteBuffer number = ByteBuffer.allocate(8);
                counter.read(number, 0);
                rest(section);
                number.putLong(0, number.getLong(0) + 1).rewind();
                counter.write(number, 0);
                long ended = System.nanoTime();
                lock.unlock();
                sections++;
                log.println(asked + " " + began + " " + ended);
                rest(pause);
            }
        }
        return sections;
    }

    private static void rest(long longestMicros) throws InterruptedException {
        long nanos = ThreadLocalRandom.current().nextLong(longestMicros * 1000 + 1);
        Thread.sleep(nanos / 1_000_000, (int) (nanos % 1_000_000));
    }
}

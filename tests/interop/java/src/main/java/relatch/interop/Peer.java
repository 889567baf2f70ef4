package relatch.interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import org.redisson.api.RedissonClient;

/**
 * A Redisson client, or one for each of several servers, that does what it is told. It reads one command a line, its words between tabs:
 *
 * <pre>ID THREAD VERB [WORD…]</pre>
 *
 * and answers each with a line of JSON:
 *
 * <pre>{"id":1,"tid":40,"began":NS,"ended":NS,"result":true}
 * {"id":2,"tid":41,"began":NS,"ended":NS,"error":"IllegalMonitorStateException","message":"…"}</pre>
 *
 * THREAD names a worker, a Java thread that is made at its first use: one name, one owner of locks. Workers run side by
 * side, so answers may come in another order. {@code began} and {@code ended} are readings of the machine's monotonic
 * clock. The first line of all is {@code {"id":0,"client":UUID,"redisson":VERSION}}, with commas between the UUIDs
 * of several clients, and on the server an owner is {@code client:tid}. The end of the input ends the program at once, and nothing is released.
 *
 * <p>What a verb does is in the class of its primitive; {@code interrupt} is the one that is not the worker's own work.
 */
public final class Peer {
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    private final Map<String, Worker> workers = new ConcurrentHashMap<>();
    private final Locks locks;
    private final Sections sections;

    /** A thread with a name of ours. */
    private static final class Worker {
        private final Thread[] thread = new Thread[1];
        private final ExecutorService jobs = Executors.newSingleThreadExecutor(job -> thread[0] = new Thread(job));

        Worker() throws Exception {
            // There is a thread to interrupt from now on.
            jobs.submit(() -> { }).get();
        }
    }

    private Peer(List<RedissonClient> servers) {
        locks = new Locks(servers);
        sections = new Sections(locks);
    }

    public static void main(String[] args) {
        // What it logs is what it was driven to. To see it: JAVA_TOOL_OPTIONS=-Dorg.slf4j.simpleLogger.defaultLogLevel=error
        if (System.getProperty("org.slf4j.simpleLogger.defaultLogLevel") == null) {
            System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "off");
        }
        try {
            List<RedissonClient> servers = new Options(args).connect();
            Map<String, Object> hello = new LinkedHashMap<>();
            hello.put("id", 0);
            hello.put("client", servers.stream().map(RedissonClient::getId).collect(Collectors.joining(",")));
            hello.put("redisson", org.redisson.Version.class.getPackage().getImplementationVersion());
            say(hello);
            new Peer(servers).obey(System.in);
            Runtime.getRuntime().halt(0);
        } catch (Throwable thrown) {
            // Redisson's threads would keep the program alive, and whoever talks to it waiting.
            thrown.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void obey(InputStream input) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(input, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> words = Arrays.asList(line.split("\t", -1));
            long id = Long.parseLong(words.get(0));
            Worker worker = worker(words.get(1));
            String verb = words.get(2);
            List<String> rest = words.subList(3, words.size());
            if (verb.equals("interrupt")) {
                worker.thread[0].interrupt();
                answer(id, worker.thread[0].getId(), System.nanoTime(), true, null);
            } else {
                worker.jobs.execute(() -> run(id, verb, rest));
            }
        }
    }

    private Worker worker(String name) throws Exception {
        Worker worker = workers.get(name);
        if (worker == null) {
            worker = new Worker();
            workers.put(name, worker);
        }
        return worker;
    }

    private void run(long id, String verb, List<String> words) {
        long began = System.nanoTime();
        Object result = null;
        Throwable error = null;
        try {
            // Other primitives get a class beside Locks, and a case here.
            result = verb.equals("sections") ? sections.go(words) : locks.run(verb, words);
        } catch (Throwable thrown) {
            error = thrown;
        }
        answer(id, Thread.currentThread().getId(), began, result, error);
    }

    private static void answer(long id, long thread, long began, Object result, Throwable error) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", id);
        answer.put("tid", thread);
        answer.put("began", began);
        answer.put("ended", System.nanoTime());
        if (error == null) {
            answer.put("result", result);
        } else {
            answer.put("error", error.getClass().getSimpleName());
            answer.put("message", String.valueOf(error.getMessage()));
        }
        say(answer);
    }

    private static synchronized void say(Map<String, Object> line) {
        OUT.println(Json.of(line));
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Members of groups, each on a thread that polls, until standard input ends; see java_members.py, which writes a command a line. */
public class JavaMembers {
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ready");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(answer(line.split("\t")));
        }
        System.exit(0);
    }

    private static String answer(String[] words) {
        try {
            Member member = words.length > 1 ? MEMBERS.get(words[1]) : null;
            switch (words[0]) {
                case "open":
                    MEMBERS.put(words[1], new Member(words[2], List.of(words).subList(3, words.length)));
                    return "";
                case "poll":
                    return member.drain();
                case "partitions":
                    return numbers(member.assigned);
                case "shares":
                    return MEMBERS.values().stream().map(each -> numbers(each.assigned)).collect(Collectors.joining(";"));
                case "commit":
                    member.run(() -> {
                        member.values.clear();
                        member.consumer.commitSync(Duration.ofSeconds(30));
                    });
                    return "";
                case "close":
                    MEMBERS.remove(words[1]).close();
                    return "";
                default:
                    return "error: no command " + words[0];
            }
        } catch (Exception problem) {
            return "error: " + problem;
        }
    }

    private static String numbers(Set<TopicPartition> partitions) {
        return partitions.stream().map(each -> "" + each.partition()).collect(Collectors.joining(" "));
    }

    private static class Member extends Thread {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final ConcurrentLinkedQueue<String> values = new ConcurrentLinkedQueue<>();
        private final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<>();
        private volatile Set<TopicPartition> assigned = Set.of();
        private volatile boolean ends = false;

        Member(String topic, List<String> settings) {
            Properties properties = new Properties();
            for (String setting : settings) {
                String[] entry = setting.split("=", 2);
                properties.put(entry[0], entry[1]);
            }
            consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(topic));
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            while (!ends) {
                for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
                    task.run();
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    values.add(new String(record.value(), StandardCharsets.UTF_8));
                }
                assigned = Set.copyOf(consumer.assignment());
            }
            consumer.close();
        }

        String drain() {
            List<String> found = new ArrayList<>();
            for (String value = values.poll(); value != null; value = values.poll()) {
                found.add(value);
            }
            return String.join(" ", found);
        }

        void run(Runnable task) throws Exception {
            CompletableFuture<Void> done = new CompletableFuture<>();
            tasks.add(() -> {
                try {
                    task.run();
                    done.complete(null);
                } catch (Exception problem) {
                    done.completeExceptionally(problem);
                }
            });
            done.get();
        }

        void close() throws InterruptedException {
            ends = true;
            join();
        }
    }
}

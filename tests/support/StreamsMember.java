import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Counts the values of a topic with Kafka Streams, until standard input ends. Arguments: servers, group, topic, state directory. */
public class StreamsMember {
    public static void main(String[] args) throws Exception {
        String servers = args[0], group = args[1], topic = args[2], directory = args[3];
        Properties config = new Properties();
        config.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers,
            StreamsConfig.APPLICATION_ID_CONFIG, group,
            StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams",
            StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2,
            StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100,
            StreamsConfig.STATE_DIR_CONFIG, directory,
            StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> records = builder.stream(topic);
        records.groupBy((key, value) -> value).count(Materialized.as("counts")).toStream()
            .to(topic + "-counts", Produced.with(Serdes.String(), Serdes.Long()));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
            CountDownLatch runs = new CountDownLatch(1);
            streams.setStateListener((state, before) -> {
                if (state == KafkaStreams.State.RUNNING) {
                    runs.countDown();
                }
            });
            streams.start();
            System.out.println(runs.await(60, TimeUnit.SECONDS) ? "running" : "error: state " + streams.state());
            while (System.in.read() >= 0) { }
        }
    }
}

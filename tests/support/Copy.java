import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies records in transactions that take the reader's offsets along, and aborts every third; see test_java.py.
 * Arguments: bootstrap servers, from, to, how many, the reader's group and its protocol.
 */
public class Copy {
    public static void main(String[] args) {
        String from = args[1], to = args[2], group = args[4];
        Map<String, Object> reading = new HashMap<>(Map.of("bootstrap.servers", args[0], "group.id", group,
            "group.protocol", args[5], "isolation.level", "read_committed", "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "max.poll.records", 50));
        Map<String, Object> writing = Map.of("bootstrap.servers", args[0], "transactional.id", group);
        try (var consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             var producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            int left = Integer.parseInt(args[3]);
            for (int round = 1; left > 0; ) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, Long> starts = new HashMap<>();
                Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    TopicPartition place = new TopicPartition(from, record.partition());
                    starts.putIfAbsent(place, record.offset());
                    ends.put(place, new OffsetAndMetadata(record.offset() + 1));
                    producer.send(new ProducerRecord<>(to, record.partition(), record.key(), record.value()));
                }
                producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                if (round++ % 3 == 0) {
                    producer.flush();
                    producer.abortTransaction();
                    starts.forEach(consumer::seek);
                } else {
                    producer.commitTransaction();
                    left -= records.count();
                }
            }
        }
    }
}

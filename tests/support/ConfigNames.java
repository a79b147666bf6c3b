import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the configuration keys of Java's clients: `consumer key` or `producer key`, a line each. */
public final class ConfigNames {
    public static void main(String[] arguments) {
        new TreeSet<>(ConsumerConfig.configNames()).forEach(name -> System.out.println("consumer " + name));
        new TreeSet<>(ProducerConfig.configNames()).forEach(name -> System.out.println("producer " + name));
    }
}

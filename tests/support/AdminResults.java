import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** Prints what Java's Admin returns: a line with tabs for each item. Arguments: bootstrap servers and a topic. */
public final class AdminResults {
    private static void print(Object... cells) {
        List<String> texts = new ArrayList<>();
        for (Object cell : cells) {
            texts.add(String.valueOf(cell));
        }
        System.out.println(String.join("\t", texts));
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", args[0]))) {
            List<ConfigResource> resources = List.of(
                new ConfigResource(ConfigResource.Type.TOPIC, topic), new ConfigResource(ConfigResource.Type.BROKER, "1"));
            DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
            admin.describeConfigs(resources, options).all().get().forEach((resource, config) ->
                config.entries().forEach(each -> print("config", resource.type().name().toLowerCase(), each.name(),
                    each.value(), each.source().name(), each.isReadOnly(), each.isSensitive(), each.type().name(),
                    each.synonyms().stream().map(s -> s.name() + "=" + s.value()).toList())));
            admin.describeAcls(AclBindingFilter.ANY).values().get().forEach(each -> print("acl",
                each.pattern().resourceType().name(), each.pattern().name(), each.pattern().patternType().name(),
                each.entry().principal(), each.entry().host(), each.entry().operation().name(),
                each.entry().permissionType().name()));
            Map<String, OffsetSpec> specs = new LinkedHashMap<>();
            specs.put("EARLIEST", OffsetSpec.earliest());
            specs.put("LATEST", OffsetSpec.latest());
            specs.put("MAX_TIMESTAMP", OffsetSpec.maxTimestamp());
            specs.put("EARLIEST_LOCAL", OffsetSpec.earliestLocal());
            specs.put("LATEST_TIERED", OffsetSpec.latestTiered());
            specs.put("1005", OffsetSpec.forTimestamp(1005));
            for (Map.Entry<String, OffsetSpec> spec : specs.entrySet()) {
                for (int partition = 0; partition < 2; partition++) {
                    TopicPartition tp = new TopicPartition(topic, partition);
                    var found = admin.listOffsets(Map.of(tp, spec.getValue())).partitionResult(tp).get();
                    print("offset", spec.getKey(), partition, found.offset(), found.timestamp(),
                        found.leaderEpoch().orElse(-1));
                }
            }
            var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            print("topic", described.name(), described.topicId(), described.isInternal());
            described.partitions().forEach(each -> print("partition", each.partition(), each.leader().id(),
                ids(each.replicas()), ids(each.isr()), ids(each.elr()), ids(each.lastKnownElr())));
            admin.listTransactions().all().get().forEach(each -> print("transaction", each.transactionalId(),
                each.producerId(), each.state().toString()));
            admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).forEach((path, dir) -> {
                print("dir", path, dir.totalBytes().getAsLong());
                dir.replicaInfos().forEach((tp, each) -> {
                    if (tp.topic().equals(topic)) {
                        print("replica", path, tp.partition(), each.size(), each.offsetLag(), each.isFuture());
                    }
                });
            });
            admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().forEach((entity, quotas) ->
                print("quota", new TreeMap<>(entity.entries()), new TreeMap<>(quotas)));
        }
    }
}

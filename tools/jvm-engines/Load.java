// What tools/jvm-engines/check has its servers do, by their own clients.
//   zookeeper ADDRESS N   creates N znodes, one after the other
//   kafka ADDRESS N       makes a topic of each kind, sends N records to both, each in a transaction, and reads them
//   flushes PORT          prints how many syncs of segments a Kafka has counted, by JMX

import java.time.Duration;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import javax.management.ObjectName;
import javax.management.remote.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;
import org.apache.zookeeper.*;

public class Load {
    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "zookeeper": zookeeper(words[1], Integer.parseInt(words[2])); break;
            case "kafka": kafka(words[1], Integer.parseInt(words[2])); break;
            case "flushes": System.out.println(flushes(words[1])); break;
        }
    }

    static void zookeeper(String address, int number) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(address, 60_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) connected.countDown();
        });
        connected.await();
        for (int n = 0; n < number; n++)
            client.create("/n", new byte[100], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
        client.close();
    }

    static void kafka(String address, int number) throws Exception {
        Map<String, Object> server = Map.of("bootstrap.servers", address);
        try (Admin admin = Admin.create(server)) {
            NewTopic compacted = new NewTopic("customers", 1, (short) 1).configs(Map.of("cleanup.policy", "compact"));
            admin.createTopics(List.of(new NewTopic("orders", 2, (short) 1), compacted)).all().get();
        }
        Map<String, Object> transactional = new HashMap<>(server);
        transactional.put("transactional.id", "load");
        byte[] value = new byte[20_000];
        new Random(1).nextBytes(value);
        try (var producer = new KafkaProducer<>(transactional, new StringSerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int n = 0; n < number; n++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("orders", n % 2, null, value));
                producer.send(new ProducerRecord<>("customers", "customer " + n % 3, value));
                // What is aborted unsent is in no log; else it is in the index of transactions.
                producer.flush();
                if (n % 10 == 0) producer.abortTransaction(); else producer.commitTransaction();
            }
        }
        Map<String, Object> reader = new HashMap<>(server);
        reader.putAll(Map.of("group.id", "readers", "auto.offset.reset", "earliest"));
        try (var consumer = new KafkaConsumer<>(reader, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of("orders"));
            for (int read = 0; read < number; ) read += consumer.poll(Duration.ofSeconds(1)).count();
            consumer.commitSync();
        }
    }

    static Object flushes(String port) throws Exception {
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi");
        try (JMXConnector connector = JMXConnectorFactory.connect(url)) {
            ObjectName name = new ObjectName("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs");
            return connector.getMBeanServerConnection().getAttribute(name, "Count");
        }
    }
}

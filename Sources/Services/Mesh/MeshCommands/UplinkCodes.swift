import Tool

/// The codes of private messages over Nostr: states of the service and of its relays, and its messages of the journal.
enum UplinkCodes {
  static let all: [CodeMeaning] =
    states.map { CodeMeaning($0.code, kind: "state of the uplink", $0.meaning, remedy: $0.remedy) }
    + relays.map { CodeMeaning($0.code, kind: "state of a relay of the uplink", $0.meaning, remedy: $0.remedy) }
    + messages.map {
      CodeMeaning($0.code, aliases: [$0.hex], kind: "message of the journal of earshot-nostrd", $0.meaning)
    }

  private static let states: [(code: String, meaning: String, remedy: String)] = [
    ("starting", "earshot-nostrd reads its key and the messages that wait.", ""),
    (
      "failed", "The Nostr key or the messages that wait cannot be read. Nothing is sent or received.",
      "`earshot mesh uplink` names the file and the reason."
    ),
    (
      "noMesh", "earshotd hands no messages over: it does not run, its mesh is off, or it has refused earshot-nostrd.",
      "`earshot mesh uplink` names the reason."
    ),
    (
      "waitingForProxy", "The SOCKS proxy does not accept connections. Nothing is sent, and messages wait.",
      "Start the proxy: sudo systemctl start tor. Or correct Proxy= in /etc/earshot/uplink.conf."
    ),
    (
      "idle", "No mutual favourite has a Nostr key, so no relay is connected.",
      "Mark a peer as favourite, and have it mark this node, while both are in range."
    ),
    (
      "connecting", "The proxy accepts connections, and no relay is connected.",
      "If the proxy is tor, journalctl -u tor@default shows whether it has reached its network."
    ),
    ("ready", "At least one relay is connected.", ""),
  ]

  private static let relays: [(code: String, meaning: String, remedy: String)] = [
    ("idle", "The relay is not connected, because the proxy is away, or no mutual favourite has a Nostr key.", ""),
    (
      "waiting", "The last connection failed or ended. The next attempt follows within 12 min.",
      "`earshot mesh uplink` names the reason."
    ),
    ("connecting", "The connection is being made.", ""),
    ("catching-up", "The relay is connected, and sends the messages that it has stored.", ""),
    ("live", "The relay is connected, and sends messages as they are published.", ""),
    (
      "unsubscribed", "The relay is connected, and does not send messages to this node.",
      "Some relays serve only their customers. Name others in Relays= of /etc/earshot/uplink.conf."
    ),
    (
      "refused", "The relay is not used: its address is wrong or numeric, or has no TLS.",
      "Correct Relays= in /etc/earshot/uplink.conf."
    ),
  ]

  private static let messages: [(code: String, hex: String, meaning: String)] = [
    (
      "UplinkProxyLost", "0d5b7e0c3f9a4c5f8a36b1f2e47d9c60",
      "The proxy for Nostr relays cannot be used. The message gives the address and the reason. Nothing is sent to "
        + "relays meanwhile, and messages wait. The service checks the proxy again at intervals of up to 1 min. Start "
        + "the proxy, or set Proxy= in uplink.conf."
    ),
    (
      "UplinkProxyFound", "a8c41d6f2b7e4d0c9e15f3760bd284ea",
      "The proxy for Nostr relays accepts connections again. Relays are connected through it now, and the messages that "
        + "waited are sent."
    ),
    (
      "UplinkStoreFailed", "6e92f0b4d7c34a18b3f1c85e29a06d7b",
      "The Nostr key or the outbox cannot be stored or read. The message names the file and the reason. If the key "
        + "cannot be read, nothing is sent or received. A message that cannot be stored is refused, and earshotd "
        + "passes it to the uplink again."
    ),
    (
      "UplinkWiped", "f47a2c9e815b4d36a0d8e6135bc7f092",
      "The Nostr key and all messages of the uplink are erased. The mesh was wiped. Favourites get the new key when they "
        + "are in range."
    ),
  ]
}

import Journal

extension Journal.MessageID {
  /// The proxy cannot be used.
  static let uplinkProxyLost = Journal.MessageID(
    "UplinkProxyLost", "0d5b7e0c3f9a4c5f8a36b1f2e47d9c60", "The proxy for Nostr relays cannot be used",
    """
    The message gives the address and the reason. Nothing is sent to relays meanwhile, and messages wait. The service
    checks the proxy again at intervals of up to 1 min. Start the proxy, or set Proxy= in uplink.conf.
    """)

  /// The proxy can be used again.
  static let uplinkProxyFound = Journal.MessageID(
    "UplinkProxyFound", "a8c41d6f2b7e4d0c9e15f3760bd284ea", "The proxy for Nostr relays accepts connections again",
    """
    Relays are connected through it now, and the messages that waited are sent.
    """)

  /// The keys or the outbox cannot be read or written.
  static let uplinkStoreFailed = Journal.MessageID(
    "UplinkStoreFailed", "6e92f0b4d7c34a18b3f1c85e29a06d7b", "The Nostr key or the outbox cannot be stored or read",
    """
    The message names the file and the reason. If the key cannot be read, nothing is sent or received. A message that
    cannot be stored is refused, and earshotd passes it to the uplink again.
    """)

  /// The keys and the outbox were destroyed.
  static let uplinkWiped = Journal.MessageID(
    "UplinkWiped", "f47a2c9e815b4d36a0d8e6135bc7f092", "The Nostr key and all messages of the uplink are erased",
    """
    The mesh was wiped. Favourites get the new key when they are in range.
    """)

  /// All message IDs of the uplink.
  static let uplink: [Journal.MessageID] = [.uplinkProxyLost, .uplinkProxyFound, .uplinkStoreFailed, .uplinkWiped]
}

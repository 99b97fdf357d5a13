import NostrUplink

/// The service of private messages over Nostr relays.
@main
struct EarshotNostrd {
  static func main() { UplinkDaemon.program.main() }
}

import DBus
import Hosting
import Loop

/// D-Bus adaptor of the uplink: `org.earshot.Uplink1`.
@LoopActor
final class UplinkAdaptor {
  nonisolated static let busName = "org.earshot.Nostr"
  nonisolated static let interfaceName = "org.earshot.Uplink1"
  nonisolated static let path: ObjectPath = "/org/earshot/uplink"

  private let object: ExportedObject

  init(_ service: UplinkService, on bus: BusConnection) {
    bus.objects.exportManager(Self.path)
    object = bus.objects.export(Self.path, interfaces: [Self.interface(service, tree: bus.objects)])
    service.changes.addForGood { [weak self] in
      self?.object.changed("State", "Reason", "PublicKey", "Relays", "Waiting")
    }
    service.channelArrivals.addForGood { [weak self] in
      self?.object.emit(Self.interfaceName, "ChannelMessageWaiting", [.uint32($0)])
    }
  }

  /// - Parameter tree: the tree whose signals `Watch` requests; nil if the interface is only described.
  static func interface(_ service: UplinkService, tree: ObjectTree? = nil) -> Interface {
    Interface(
      interfaceName,
      documentation:
        "Private messages of the mesh over Nostr relays, for mutual favourites that have no path in the mesh; and "
        + "public geohash channels.",
      methods: WatchMethods.methods(tree) + channels(service),
      properties: [
        Property(
          "State", "s",
          documentation:
            "starting; failed (the key or the outbox cannot be read); noMesh (earshotd hands no messages over); "
            + "waitingForProxy (nothing is sent); idle (no mutual favourite has a Nostr key, so nothing is connected); "
            + "connecting; or ready (a relay is connected).",
          get: { .string(service.status.rawValue) }),
        Property(
          "Reason", "s", documentation: "What is missing, since when, and what to do; empty if nothing is.",
          get: { .string(service.reason) }),
        Property(
          "PublicKey", "s", documentation: "The node's Nostr key in Bech32 (npub1…); empty before it is read.",
          get: { .string(service.publicKey) }),
        Property(
          "Relays", "a(ssss)",
          documentation:
            "The relays: address; purpose (messages, or channel and a geohash); state (idle, waiting, connecting, "
            + "catching-up, live, unsubscribed, or refused); and why the last connection ended, or why the relay is "
            + "not used.",
          get: {
            .array(
              of: "(ssss)",
              service.relays.map {
                .structure([.string($0.address), .string($0.purpose), .string($0.state), .string($0.reason)])
              })
          }),
        Property(
          "Waiting", "u",
          documentation: "The number of messages that wait for a receipt, and of receipts that no relay has accepted.",
          get: { .uint32(UInt32(clamping: service.waiting)) }),
        Property(
          "Counters", "a{st}",
          documentation: "Counters since the service started, including everything that was dropped, by reason.",
          emits: .none, get: { .tallies(service.tallies) }),
      ],
      signals: [
        Signal(
          "ChannelMessageWaiting", [Argument("message", "u")],
          documentation:
            "A text in a geohash channel was received. ListChannels with the preceding number as after returns it."
        )
      ])
  }

  private static func channels(_ service: UplinkService) -> [Method] {
    [
      Method(
        "SayInChannel", in: [Argument("channel", "s"), Argument("text", "s")], out: [Argument("message", "u")],
        documentation:
          "Publishes a text of at most 4 KiB in a geohash channel, which Geohash= has. Everybody can read it. It is "
          + "sent once, to the relays that are connected.",
        errors: [.invalidArgs, .notFound, .notReady],
        returning: { call throws(DBusError) in
          guard let channel = call.arguments.first?.asString, let text = call.arguments.last?.asString else {
            throw .invalidArgs("SayInChannel takes a channel and a text.")
          }
          return [.uint32(try service.say(text, in: channel))]
        }),
      Method(
        "ListChannels", in: [Argument("after", "u"), Argument("limit", "u")],
        out: [Argument("messages", "a(utssssb)")],
        documentation:
          "Returns texts in the channels with a higher number than after, the oldest first, at most limit of them (0: "
          + "500). Each consists of its number; the time in milliseconds since 1970-01-01 UTC, by its author's clock; "
          + "the channel; the author's key in this channel, 64 hexadecimal digits; the author's nickname, which others "
          + "may have as well; the text; and whether the author states to be elsewhere. The last 500 are in memory.",
        errors: [.invalidArgs],
        returning: { call throws(DBusError) in
          guard let after = call.arguments.first?.asUInt32, let limit = call.arguments.last?.asUInt32 else {
            throw .invalidArgs("ListChannels takes two numbers.")
          }
          let lines = service.channelLog.list(after: after, limit: limit == 0 ? ChannelLog.limit : Int(limit))
          return [.array(of: "(utssssb)", lines.map(\.value))]
        }),
    ]
  }
}

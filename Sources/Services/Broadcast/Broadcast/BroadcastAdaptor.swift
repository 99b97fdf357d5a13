import Common
import DBus
import Loop
import PBLEC

/// D-Bus adaptor of the local broadcast channel: `org.earshot.Broadcast1`.
@LoopActor
public final class BroadcastAdaptor {
  public nonisolated static let interfaceName = "org.earshot.Broadcast1"
  public nonisolated static let path: ObjectPath = "/org/earshot/broadcast"

  private let object: ExportedObject

  public init(_ service: BroadcastService, on tree: ObjectTree, manager: ObjectPath) {
    let object = tree.export(Self.path, interfaces: [Self.interface(service)], manager: manager)
    self.object = object
    func emit(_ signal: String, _ arguments: [DBusValue] = []) {
      object.emit(Self.interfaceName, signal, arguments)
    }
    service.changes.addForGood { [weak object] in
      object?.changed("State", "Reason", "Listening", "PeersNearby", "NotifyLimit", "NotifiesLeft")
    }
    service.arrivals.addForGood { emit("MessageReceived", [.uint64($0)]) }
    service.outcomes.addForGood { number, error in
      if let error {
        emit("MessageFailed", [.uint64(number), .string(Self.name(error)), .string(error.sentence)])
      } else {
        emit("MessageSent", [.uint64(number)])
      }
    }
    service.notifications.addForGood { emit("NotifyReceived") }
    service.callOutcomes.addForGood { error in
      if let error {
        emit("NotifyFailed", [.string(Self.name(error)), .string(error.sentence)])
      } else {
        emit("NotifySent")
      }
    }
  }

  public static func interface(_ service: BroadcastService) -> Interface {
    Interface(
      interfaceName,
      documentation:
        "The local broadcast channel (PBLEC): messages of up to 24 bytes in advertisements, in clear and unsigned.",
      audience: .everybody, methods: methods(service), properties: properties(service), signals: signals)
  }

  private static let signals = [
    Signal(
      "MessageReceived", [Argument("message", "t")],
      documentation: "A message was received. ListMessages returns it if the argument after is the number before it."),
    Signal(
      "MessageSent", [Argument("message", "t")],
      documentation: "A message of this machine was broadcast for its 4 s."),
    Signal(
      "MessageFailed", [Argument("message", "t"), Argument("error", "s"), Argument("sentence", "s")],
      documentation:
        "A message of this machine was not broadcast for its 4 s: NotReady (no adapter), Timeout (no advertising slot "
        + "within 30 s), CutShort or Cancelled, and a sentence for people."),
    Signal("NotifyReceived", documentation: "A beacon was received: somebody nearby wants to talk."),
    Signal("NotifySent", documentation: "The notification of this machine was broadcast for a minute."),
    Signal(
      "NotifyFailed", [Argument("error", "s"), Argument("sentence", "s")],
      documentation:
        "The notification of this machine was not broadcast for a minute: NotReady or Timeout, after which it may be "
        + "sent again today, or CutShort; and a sentence for people."),
  ]

  private static func methods(_ service: BroadcastService) -> [Method] {
    [
      Method(
        "Send", in: [Argument("text", "s")], out: [Argument("message", "t")],
        documentation:
          "Broadcasts a message to everybody nearby: 1 to 24 bytes of UTF-8 without control characters. Returns its "
          + "number at once. At most four messages wait, each 6 s for the one before it. MessageSent or MessageFailed "
          + "reports the outcome.",
        errors: [.invalidArgs, .limitExceeded, .notReady],
        returning: { call throws(DBusError) in
          guard let text = call.arguments.first?.asString else { throw .invalidArgs("Send takes a text.") }
          do throws(BroadcastService.Refusal) {
            return [.uint64(try service.send(text))]
          } catch {
            throw DBusError(error)
          }
        }),
      Method(
        "Cancel", in: [Argument("message", "t")],
        documentation: "Cancels a message that waits, or stops the broadcast of the current one.",
        errors: [.notFound],
        returning: { call throws(DBusError) in
          guard let number = call.arguments.first?.asUInt64 else { throw .invalidArgs("Cancel takes a number.") }
          do throws(BroadcastService.Refusal) {
            try service.cancel(number)
            return []
          } catch {
            throw DBusError(error)
          }
        }),
      Method(
        "Notify",
        documentation:
          "Broadcasts for a minute, once a day, that somebody wants to talk. Returns when the disk has stored that the "
          + "day's notification is used; NotifySent or NotifyFailed reports the outcome.",
        errors: [.limitExceeded, .notReady, .timeout, .failed],
        handler: { call in
          service.notify { refusal in
            if let refusal { call.fail(DBusError(refusal)) } else { call.reply() }
          }
        }),
      Method(
        "ListMessages", in: [Argument("after", "t"), Argument("limit", "u")],
        out: [Argument("messages", "a(ttssn)")],
        documentation:
          "Returns the received messages whose number is higher than after, oldest first. limit is the maximum number "
          + "of messages (0: 1,000, the number that is stored). Each consists of its number; the time in milliseconds "
          + "since 1970-01-01 UTC; two words for the peer, which change with a restart; the text as received, which "
          + "may change the direction of reading; and the signal strength in dBm, 127 if it is not known.",
        returning: { call throws(DBusError) in
          guard let after = call.arguments.first?.asUInt64, let limit = call.arguments.last?.asUInt32 else {
            throw .invalidArgs("ListMessages takes two numbers.")
          }
          let count = limit == 0 ? Limits.messages : min(Int(limit), Limits.messages)
          return [.array(of: "(ttssn)", service.messages(after: after, limit: count).map(\.value))]
        }),
    ]
  }

  private static func properties(_ service: BroadcastService) -> [Property] {
    [
      Property(
        "State", "s",
        documentation:
          "stopped, waiting (for a radio, or the disk), listening, or degraded: Reason names what is missing.",
        audience: .everybody, get: { .string(service.state.rawValue) }),
      Property(
        "Reason", "s", documentation: "What is wrong and what to do; empty if nothing is wrong.", audience: .everybody,
        get: { .string(service.reason) }),
      Property(
        "Listening", "b", documentation: "Whether messages can be received.", audience: .everybody,
        get: { .bool(service.isListening) }),
      Property(
        "PeersNearby", "u", documentation: "The number of peers received in the last minute, 256 at most.",
        audience: .group,
        get: { .uint32(UInt32(clamping: service.peersNearby)) }),
      Property(
        "NotifyLimit", "u",
        documentation:
          "The maximum number of NotifyReceived signals a day, 0 to 100. It can be set, is stored, and takes "
          + "precedence over the settings.",
        audience: .group, get: { .uint32(UInt32(clamping: service.notifyLimit)) },
        set: { value throws(DBusError) in
          guard let limit = value.asUInt32, Int(limit) <= Limits.mostNotifications else {
            throw .invalidArgs("NotifyLimit is a number from 0 to \(Limits.mostNotifications).")
          }
          do throws(BroadcastService.Refusal) {
            try service.setNotifyLimit(Int(limit))
          } catch {
            throw DBusError(error)
          }
        }),
      Property(
        "NotifiesLeft", "u",
        documentation:
          "The number of NotifyReceived signals that may still come today. The start of a new day is not signalled.",
        audience: .group, get: { .uint32(UInt32(clamping: service.notificationsLeft)) }),
      Property(
        "Counters", "a{st}",
        documentation:
          "Counters since the service started, including everything that was dropped, by reason.",
        audience: .everybody, emits: .none, get: { .tallies(service.tallies) }),
    ]
  }

  /// The last part of the D-Bus error name: the code of the error.
  private static func name(_ error: BroadcastError) -> String { error.code }
}

extension ReceivedBroadcast {
  fileprivate var value: DBusValue {
    .structure([
      .uint64(number), .uint64(UInt64(max(0, time))), .string(PeerWord.word(alias)), .string(text.string),
      .int16(SignalStrength.number(rssi)),
    ])
  }
}

extension DBusError {
  init(_ refusal: BroadcastService.Refusal) {
    let sentence = refusal.sentence
    switch refusal {
    case .notReady: self = .notReady(sentence)
    case .store: self = .failed(sentence)
    case .feed(let error):
      switch error {
      case .empty, .tooLong, .controlCharacters: self = .invalidArgs(sentence)
      case .queueFull, .notifySpent, .notifying: self = .limitExceeded(sentence)
      case .unknownMessage: self = .notFound(sentence)
      case .noPlace, .radioFailed: self = .timeout(sentence)
      case .clockNotSet, .noRadio: self = .notReady(sentence)
      case .cancelled, .cutShort: self = .failed(sentence)
      }
    }
  }
}

/// Two words for a peer's alias, for people. They do not reveal the address, and change with a restart.
enum PeerWord {
  /// - Parameter alias: taken modulo `Limits.aliases`.
  static func word(_ alias: Int) -> String {
    let number = ((alias % Limits.aliases) + Limits.aliases) % Limits.aliases
    return "\(first[number >> 7])-\(second[number & 127])"
  }

  static let first = words(
    """
    agile airy amber ample apt arid azure bald bare blithe blond blue bold bonny brave brief bright brisk broad bronze brown busy calm
    candid chief civil clear clever cloudy coral cosy crisp curly dapper daring deep deft dewy dry dusky eager early easy even fair
    famous fancy fast fine firm fleet fluffy fond frank free fresh frosty gentle giant glad golden grand green grey handy happy hardy
    hasty hazel honest humble icy ivory jade jolly keen kind large lean light lively lone loud loyal lucid lucky mellow merry mild
    minty misty modest neat nimble noble olive pale plain polite prime proud quick quiet rapid rare ready red rosy royal ruby rustic
    sandy sharp shy silent silver sleek small smart snowy solid spry steady sunny swift teal warm witty
    """)

  static let second = words(
    """
    acorn alder anchor apple arrow ash aspen atlas badger barley basil beacon beaver beech birch bison boulder bramble breeze bridge
    brook canyon carp cedar cherry clover comet copper crane creek cricket cypress daisy delta dove dune eagle elder elm ember falcon
    feather fern ferry finch fjord flint forest fox garnet geyser ginger glacier grove gull harbor hare hawk hazelnut heather heron
    hill holly island ivy jackdaw jasper juniper kestrel kite lagoon lake lantern larch lark laurel lemon lichen lily linden lotus
    lynx maple marble marten meadow mesa mint moon moss nettle newt oak oasis opal orchid osprey otter owl panda pebble pepper pine
    plover plum pond poplar puffin quail quartz raven reed reef ridge river robin rowan saffron sage salmon sequoia shore sparrow
    spruce stream thistle tulip willow
    """)

  private static func words(_ text: String) -> [String] { text.split(whereSeparator: \.isWhitespace).map(String.init) }
}

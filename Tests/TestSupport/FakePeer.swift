import DBus
import Loop

/// A peripheral in front of an adapter of `FakeBlueZ`: it can be heard, connected to, written to and listened to.
@LoopActor
public final class FakePeer {
  public struct Characteristic: Sendable {
    public let uuid: String
    public let flags: [String]

    public init(_ uuid: String, _ flags: [String]) {
      self.uuid = uuid
      self.flags = flags
    }
  }

  public struct Service: Sendable {
    public let uuid: String
    public let characteristics: [Characteristic]

    public init(_ uuid: String, _ characteristics: [Characteristic]) {
      self.uuid = uuid
      self.characteristics = characteristics
    }
  }

  public struct Write: Hashable, Sendable {
    public var uuid: String
    public var value: [UInt8]
    /// `request` or `command`; `socket` for a command that came by one.
    public var type: String
  }

  public let address: String
  public let adapter: String
  public var services: [Service]
  /// Nil: bluetoothd is too old to say.
  public var mtu: UInt16? = 517
  /// What the next attempts to connect are refused with.
  public var refusals: [DBusError] = []
  /// Whether it never answers: the attempt hangs until it is given up.
  public var isDeaf = false
  /// Whether bluetoothd answers that it is connected to it before it tells everybody, and tells something else between.
  public var isToldLate = false
  /// Whether bluetoothd answers that it is connected to it, and the link ends before bluetoothd tells of it.
  public var isLostAtOnce = false
  /// Whether bluetoothd signals only the end of links with it, and answers rightly where it is asked whether it is connected.
  public var isNeverTold = false
  /// Whether bluetoothd does not signal the end of such a link either.
  public var isEndUntold = false
  /// Whether bluetoothd never finds out what it serves.
  public var isUnreadable = false
  /// Whether bluetoothd has what it served before, and finds nothing where it writes and subscribes, until it has forgotten the peer.
  public var isOutdated = false
  /// What it finds instead.
  public var outdatedAnswer = DBusError(
    name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x01")
  /// What subscribing is refused with.
  public var subscriptionRefusal: DBusError?
  /// What the next call of `AcquireWrite` is refused with.
  public var socketRefusal: DBusError?
  /// Whether bluetoothd leaves what is written to its sockets there until `takeWrites()`.
  public var leavesWrites = false
  /// bluetoothd's ends, by characteristic.
  var writers: [String: PacketSocket] = [:]
  /// Whether the answers to writes are kept back until `releaseAnswers()`.
  public var holdsAnswers = false
  public var onConnect: @LoopActor () -> Void = {}
  public var onDisconnect: @LoopActor () -> Void = {}
  /// Called before a subscription is answered.
  public var onSubscribe: @LoopActor (_ uuid: String, _ answer: @escaping @LoopActor () -> Void) -> Void = { $1() }
  /// What a write is answered with.
  public var onWrite: @LoopActor (Write, _ answer: @escaping @LoopActor (DBusError?) -> Void) -> Void = { $1(nil) }
  /// All that was written.
  public let writes = Mailbox<Write>()
  public internal(set) var subscriptions: Set<String> = []
  /// Whether what it serves, and who subscribed, is kept when its link ends, as bluetoothd keeps a peer that has come by itself for
  /// half a minute.
  public var isKept = false

  var held: [@LoopActor () -> Void] = []
  /// The characteristics whose request is not answered yet.
  var busy: Set<String> = []
  var connecting: MethodCall?

  public init(_ address: String = "00:AA:03:00:00:01", on adapter: String = "hci0", services: [Service] = []) {
    self.address = address
    self.adapter = adapter
    self.services = services
  }

  /// Whether an attempt to connect hangs.
  public var isBeingConnected: Bool { connecting != nil }

  /// An attempt that hangs comes to nothing.
  public func giveUpConnecting() {
    connecting?.fail(DBusError(name: "org.bluez.Error.Failed", message: "Host is down"))
    connecting = nil
  }

  /// Takes what was written to the sockets, and goes on taking it.
  public func takeWrites() {
    leavesWrites = false
    for (uuid, socket) in writers { listen(to: socket, uuid) }
  }

  /// bluetoothd ends a socket, as when the peer's services have changed.
  public func endWrites() {
    for socket in writers.values { socket.close() }
    writers = [:]
  }

  func listen(to socket: PacketSocket, _ uuid: String) {
    socket.onReadable = { [weak self, weak socket] in
      while let self, let socket, case .packet(let value) = socket.receive(limit: 512) {
        let write = Write(uuid: uuid, value: value, type: "socket")
        writes.put(write)
        onWrite(write) { _ in }
      }
    }
  }

  /// How many answers are kept back.
  public var heldAnswers: Int { held.count }

  /// Gives the oldest `count` of the answers that were kept back.
  public func releaseAnswers(_ count: Int = .max) {
    let answers = held.prefix(count)
    held.removeFirst(answers.count)
    for answer in answers { answer() }
  }
}

import DBus
import Loop

/// A peripheral in range of an adapter of `FakeBlueZ`, for scanning, connecting, writing and subscribing.
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
    /// `request` or `command`; `socket` for a command through a socket.
    public var type: String
  }

  public let address: String
  public let adapter: String
  public var services: [Service]
  /// The MTU that bluetoothd reports for the link; nil for a bluetoothd that is too old to report it.
  public var mtu: UInt16? = 517
  /// The errors of the next connection attempts, in order.
  public var refusals: [DBusError] = []
  /// Whether the peer never answers, so that a connection attempt hangs until it is given up.
  public var isDeaf = false
  /// Whether bluetoothd answers the call before it signals the connection, with another signal between them.
  public var isToldLate = false
  /// Whether bluetoothd answers the call, and the link ends before bluetoothd signals it.
  public var isLostAtOnce = false
  /// Whether bluetoothd signals only disconnections, and answers queries of the connection correctly.
  public var isNeverTold = false
  /// Whether bluetoothd signals neither the connection nor the disconnection of a link of an `isNeverTold` peer.
  public var isEndUntold = false
  /// Whether bluetoothd never completes the discovery of the peer's services.
  public var isUnreadable = false
  /// Whether bluetoothd has outdated services, so that writes and subscriptions find nothing until the device is
  /// removed.
  public var isOutdated = false
  /// The error of writes and subscriptions while `isOutdated` is true.
  public var outdatedAnswer = DBusError(
    name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x01")
  /// The error with which the peer refuses subscriptions; nil to accept them.
  public var subscriptionRefusal: DBusError?
  /// The error of the next `AcquireWrite`.
  public var socketRefusal: DBusError?
  /// Whether bluetoothd leaves writes in its sockets until `takeWrites()`.
  public var leavesWrites = false
  /// bluetoothd's ends of sockets, by characteristic.
  var writers: [String: PacketSocket] = [:]
  /// Whether replies to writes are held back until `releaseAnswers()`.
  public var holdsAnswers = false
  public var onConnect: @LoopActor () -> Void = {}
  public var onDisconnect: @LoopActor () -> Void = {}
  /// Called before a subscription is answered.
  public var onSubscribe: @LoopActor (_ uuid: String, _ answer: @escaping @LoopActor () -> Void) -> Void = { $1() }
  /// Called with each write of the program; the test completes it with `answer`, with an error or nil.
  public var onWrite: @LoopActor (Write, _ answer: @escaping @LoopActor (DBusError?) -> Void) -> Void = { $1(nil) }
  /// All writes that the peer received, in order.
  public let writes = Mailbox<Write>()
  public internal(set) var subscriptions: Set<String> = []
  /// Whether services and subscriptions stay after its link ends, as bluetoothd keeps a peer that connected by itself
  /// for half a minute.
  public var isKept = false

  var held: [@LoopActor () -> Void] = []
  /// The characteristics with an unanswered request.
  var busy: Set<String> = []
  var connecting: MethodCall?

  public init(_ address: String = "00:AA:03:00:00:01", on adapter: String = "hci0", services: [Service] = []) {
    self.address = address
    self.adapter = adapter
    self.services = services
  }

  /// Whether a connection attempt hangs.
  public var isBeingConnected: Bool { connecting != nil }

  /// Makes a hanging attempt fail.
  public func giveUpConnecting() {
    connecting?.fail(DBusError(name: "org.bluez.Error.Failed", message: "Host is down"))
    connecting = nil
  }

  /// Reads the writes in the sockets, and later ones as they arrive.
  public func takeWrites() {
    leavesWrites = false
    for (uuid, socket) in writers { listen(to: socket, uuid) }
  }

  /// Ends the sockets as bluetoothd does when the peer's services have changed.
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

  /// Number of held replies.
  public var heldAnswers: Int { held.count }

  /// Sends the oldest `count` held replies.
  public func releaseAnswers(_ count: Int = .max) {
    let answers = held.prefix(count)
    held.removeFirst(answers.count)
    for answer in answers { answer() }
  }
}

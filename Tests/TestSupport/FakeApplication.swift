import DBus

/// A GATT application that is registered with `FakeBlueZ`.
public struct FakeApplication: Sendable {
  public struct Characteristic: Sendable {
    public let path: ObjectPath
    /// The UUID of the service that contains the characteristic.
    public let service: String
    public let flags: [String]
    /// The attribute handle that bluetoothd assigned by writing the property `Handle`.
    public internal(set) var handle: UInt16 = 0
    /// Whether the characteristic offers `AcquireNotify` and `AcquireWrite` sockets.
    public let offersSockets: Bool
    public internal(set) var offersWriteSockets: Bool
    /// The writes of all clients without a socket, in order, while a write socket is being requested; nil at other
    /// times.
    var unsent: [[UInt8]]?
    /// The subscribed clients, in the order of their subscription; nil for an unknown client.
    public internal(set) var subscribers: [ObjectPath?] = []
    /// The clients that asked for indications.
    var indicated: Set<ObjectPath> = []
    /// Number of subscriptions that bluetoothd counts. A client that changes from notifications to indications counts
    /// twice, and once less when it unsubscribes: facts in bluez.md section 14.
    var subscriptionCount = 0

    public var isSubscribed: Bool { !subscribers.isEmpty }

    /// Number of attribute handles: a declaration, a value, and a CCCD if the characteristic has notifications or
    /// indications.
    var handleCount: UInt16 { flags.contains("notify") || flags.contains("indicate") ? 3 : 2 }

    init(path: ObjectPath, service: String, flags: [String], offersSockets: Bool, offersWriteSockets: Bool) {
      self.path = path
      self.service = service
      self.flags = flags
      self.offersSockets = offersSockets
      self.offersWriteSockets = offersWriteSockets
    }
  }

  /// The unique name of the program that registered it.
  public let owner: String
  public let path: ObjectPath
  public let adapter: String
  /// The characteristics by UUID, once bluetoothd has requested them. Where several services have one UUID, the key
  /// is `service characteristic` in all but the first.
  public internal(set) var characteristics: [String: Characteristic] = [:]

  /// The handles of its services.
  public internal(set) var handles: [ClosedRange<UInt16>] = []

  public internal(set) subscript(uuid: String) -> Characteristic? {
    get { characteristics[uuid] }
    set { characteristics[uuid] = newValue }
  }

  init(owner: String, path: ObjectPath, adapter: String) {
    self.owner = owner
    self.path = path
    self.adapter = adapter
  }
}

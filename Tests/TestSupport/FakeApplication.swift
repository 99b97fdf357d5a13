import DBus

/// A GATT application that is registered with `FakeBlueZ`.
public struct FakeApplication: Sendable {
  public struct Characteristic: Sendable {
    public let path: ObjectPath
    /// The UUID of its service.
    public let service: String
    public let flags: [String]
    /// What was written back to its `Handle`.
    public internal(set) var handle: UInt16 = 0
    /// Whether it offers a socket for each client that subscribes, and for each that writes.
    public let offersSockets: Bool
    public internal(set) var offersWriteSockets: Bool
    /// While a socket is asked for: what all clients have written that have none, in their order.
    var unsent: [[UInt8]]?
    /// The clients that subscribed, in the order in which they did; nil for one that is not known.
    public internal(set) var subscribers: [ObjectPath?] = []
    /// Those of them that asked for indications.
    var indicated: Set<ObjectPath> = []
    /// How many subscriptions bluetoothd counts. A client that goes from notifications to indications counts twice,
    /// and once less when it unsubscribes: facts in bluez.md section 14.
    var subscriptionCount = 0

    public var isSubscribed: Bool { !subscribers.isEmpty }

    /// A declaration, a value, and a Client Characteristic Configuration where there are values for subscribers.
    var handleCount: UInt16 { flags.contains("notify") || flags.contains("indicate") ? 3 : 2 }

    init(path: ObjectPath, service: String, flags: [String], offersSockets: Bool, offersWriteSockets: Bool) {
      self.path = path
      self.service = service
      self.flags = flags
      self.offersSockets = offersSockets
      self.offersWriteSockets = offersWriteSockets
    }
  }

  /// The unique name of who registered it.
  public let owner: String
  public let path: ObjectPath
  public let adapter: String
  /// By their UUIDs, once it was asked for them; where several services have the same, by `service characteristic` in all
  /// but the first.
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

import Glibc
import Loop

/// The quality of transmissions, for a whole simulated radio or between two nodes.
///
/// The defaults describe a good link. Nothing is lost, and each direction carries one packet per 7.5 ms, the shortest
/// connection interval. With an MTU of 517 that is about 66 KiB/s, similar to two phones.
public struct AirConditions: Sendable {
  /// Transmission time of a packet. A direction of a link carries one packet at a time. `.zero` means no delay.
  public var latency: Duration
  /// Maximum ATT MTU of a link. At least 23.
  public var maximumMTU: Int
  /// Maximum commands of a link that are not transmitted yet; `written` of the next one is delayed.
  public var commandWindow: Int
  /// Maximum values for a client that are not transmitted yet; the next one finds the link full. Nil means no limit.
  public var notifyWindow: Int?
  /// Probability that a write without response is lost.
  public var commandLoss: Double
  /// Probability that a notification is lost. Indications are confirmed and never lost.
  public var notificationLoss: Double
  /// Probability that a listening node does not receive an advertising event; independent for each listener.
  public var advertisingLoss: Double
  /// Probability that the next packet overtakes a command or a notification.
  public var reorder: Double
  /// Probability that a command or a notification arrives twice.
  public var duplicate: Double
  /// Whether clients process values that they did not subscribe to, and servers send them, as Android phones do.
  public var deliverUnsubscribed: Bool
  /// Timeout of `connect` while the peer does not advertise in range.
  public var connectTimeout: Duration
  /// Timeout of a request, after which the link ends (Core 5.4 Vol 3 Part F 3.3.3: 30 s).
  public var requestTimeout: Duration
  /// Bytes that one direction of a stream carries in a second, at least 1.
  public var streamBandwidth = 125_000
  /// Time from the request for a stream until it is open, if the peer accepts it.
  public var streamSetup = Duration.milliseconds(100)
  /// Decides on each value before random loss; nil delivers all.
  public var filter: (@LoopActor (AirPacket) -> AirVerdict)?

  public init(
    latency: Duration = .microseconds(7500), maximumMTU: Int = 517, commandWindow: Int = 8, notifyWindow: Int? = nil,
    commandLoss: Double = 0, notificationLoss: Double = 0, advertisingLoss: Double = 0, reorder: Double = 0,
    duplicate: Double = 0,
    deliverUnsubscribed: Bool = false, connectTimeout: Duration = .seconds(5), requestTimeout: Duration = .seconds(30),
    filter: (@LoopActor (AirPacket) -> AirVerdict)? = nil
  ) {
    self.latency = latency
    self.maximumMTU = maximumMTU
    self.commandWindow = commandWindow
    self.notifyWindow = notifyWindow
    self.commandLoss = commandLoss
    self.notificationLoss = notificationLoss
    self.advertisingLoss = advertisingLoss
    self.reorder = reorder
    self.duplicate = duplicate
    self.deliverUnsubscribed = deliverUnsubscribed
    self.connectTimeout = connectTimeout
    self.requestTimeout = requestTimeout
    self.filter = filter
  }
}

/// Position of a node on the plane, in metres.
public struct AirPosition: Hashable, Sendable {
  public var x: Double
  public var y: Double
  public var z: Double

  public init(x: Double = 0, y: Double = 0, z: Double = 0) {
    self.x = x
    self.y = y
    self.z = z
  }

  public func distance(to other: AirPosition) -> Double {
    let (dx, dy, dz) = (x - other.x, y - other.y, z - other.z)
    return (dx * dx + dy * dy + dz * dz).squareRoot()
  }

  /// The RSSI at `other` in dBm: -59 dBm at one metre, 20 dB less per tenfold distance.
  func rssi(at other: AirPosition) -> Int {
    let metres = max(0.1, min(distance(to: other), 1e6))
    return Int((-59 - 20 * log10(metres)).rounded())
  }
}

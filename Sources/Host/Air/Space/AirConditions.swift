import Loop

/// How well packets get through: for a whole air, or between two nodes.
///
/// The defaults are a good link: nothing is lost, and each direction carries one packet per 7.5 ms, the shortest
/// connection interval there is: with an MTU of 517 some 66 KiB/s, about what two telephones reach.
public struct AirConditions: Sendable {
  /// How long a packet is on its way. A direction of a link carries one at a time. `.zero`: as fast as the computer.
  public var latency: Duration
  /// The largest ATT MTU that a link agrees to. At least 23.
  public var maximumMTU: Int
  /// How many commands a link takes in that have not gone out yet; `written` of the next one waits.
  public var commandWindow: Int
  /// How many values a link takes in for a client that have not gone out yet; the next one finds the link full. Nil: any
  /// number.
  public var notifyWindow: Int?
  /// Probability that a write without response is lost.
  public var commandLoss: Double
  /// Probability that a notification is lost. Indications are confirmed and never lost.
  public var notificationLoss: Double
  /// Probability that a node does not hear an advertising event that it would hear; each listener has its own chance.
  public var advertisingLoss: Double
  /// Probability that a command or a notification is overtaken by the one behind it.
  public var reorder: Double
  /// Probability that a command or a notification arrives twice.
  public var duplicate: Double
  /// Whether clients listen to values that they did not subscribe to, and servers send them, as Android phones do.
  public var deliverUnsubscribed: Bool
  /// How long `connect` waits for the peer to advertise in range.
  public var connectTimeout: Duration
  /// How long a request may stay unanswered before the link ends (Core 5.4 Vol 3 Part F 3.3.3: 30 s).
  public var requestTimeout: Duration
  /// Decides about each value before chance does; nil delivers all.
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

/// The settings of `earshotd`, as `earshot.conf` gives them.
public struct EarshotSettings: Settings {
  public var radio = Radio()
  public var verifier = Verifier()
  public var wallet = Wallet()
  public var store = Store()
  public var bus = Bus()
  public var log = Log()

  public init() {}

  public static let subject = "earshotd, Bluetooth proximity services"

  /// Section `[Radio]`.
  public struct Radio: Sendable, Equatable {
    public enum Backend: String, Sendable, CaseIterable {
      case bluez, air
    }

    public var backend = Backend.bluez
    /// Nil: the first adapter there is.
    public var adapter: String?
    /// Nil: an air of this process alone.
    public var airSocket: String?
    public var notifyUnsubscribed = true
  }

  /// Section `[Verifier]`.
  public struct Verifier: Sendable, Equatable {
    public enum Dialect: String, Sendable, CaseIterable {
      case v05 = "0.5"
      case v04 = "0.4"
      case v03 = "0.3"
    }

    public enum Decision: String, Sendable, CaseIterable {
      case client, accept
    }

    public var enabled = false
    /// At most 14 bytes of UTF-8.
    public var name = "OVPMOSIP"
    /// Never empty, never both 0.4 and 0.3.
    public var dialects = [Dialect.v05, .v04]
    public var advertisingInterval = Duration.milliseconds(100)
    public var decision = Decision.client
    /// Bytes, inflated.
    public var credentialLimit = 4 << 20
    public var reportDelay = Duration.milliseconds(40)
    public var identifyTimeout = Duration.seconds(10)
    public var idleTimeout = Duration.seconds(60)
    public var decisionTimeout = Duration.seconds(30)
    public var leaveTimeout = Duration.seconds(2)
    public var keptTransfers = 16
    public var visitTimeout = Duration.seconds(900)
    public var waitingLinks = 8
    public var links = 64
    public var linksPerPeer = 2
  }

  /// Section `[Wallet]`.
  public struct Wallet: Sendable, Equatable {
    public var enabled = true
    /// Bytes, before they are compressed.
    public var credentialLimit = 4 << 20
    public var scanTimeout = Duration.seconds(30)
    public var connectTimeout = Duration.seconds(10)
    public var reportTimeout = Duration.seconds(5)
    public var idleTimeout = Duration.seconds(60)
    public var transferTimeout = Duration.seconds(900)
    public var transfers = 4
    public var keptTransfers = 16
  }

  /// Section `[Store]`.
  public struct Store: Sendable, Equatable {
    /// Nil: `$STATE_DIRECTORY`.
    public var directory: String?
    public var keepFor = Duration.seconds(86_400)
    /// Of all credentials that wait together, as files.
    public var bytes = 64 << 20
  }

  /// Section `[Bus]`.
  public struct Bus: Sendable, Equatable {
    public var waitingCallers = 256
    public var waitingCalls = 256
  }

  /// Section `[Log]`.
  public struct Log: Sendable, Equatable {
    /// The names are the journal's.
    public enum Level: String, Sendable, CaseIterable {
      case error, warning, notice, info, debug
    }

    public var level = Level.info
    public var linesPerPeer = 6
  }
}

import BlueZ
import HCI

/// Facts that `earshot doctor` has read about this machine. `Examination` derives the findings from them.
struct MachineFacts: Sendable, Equatable {
  /// An adapter, as bluetoothd and the kernel report it.
  struct Adapter: Sendable, Equatable {
    var name = "hci0"
    var isOn = true
    /// The values of `Roles`: `central`, `peripheral`, `central-peripheral`.
    var roles: [String] = ["central", "peripheral"]
    /// Free and used advertising slots; nil if bluetoothd offers no advertising on this adapter.
    var slots: Int? = 4
    var block: RadioBlock?
  }

  /// The public state of the running service.
  struct Service: Sendable, Equatable {
    var version = ""
    var radioState = "ready"
    var radioReason = ""
    /// The Bluetooth stack; empty while the service waits for it, and with the simulated radio.
    var radioStack = "BlueZ 5.82"
    var radioLimits: [String] = []
    /// A problem with storing credentials; empty if there is none.
    var storage = ""
    /// A problem with the credential checker; empty if there is none.
    var checker = ""

    /// Whether the service uses the simulated radio (`Backend=air`).
    var isSimulated: Bool { radioState != "waiting" && radioStack.isEmpty }
  }

  /// The state of `earshot-nostrd`, private messages of the mesh over Nostr relays.
  struct Uplink: Sendable, Equatable {
    struct Relay: Sendable, Equatable {
      var address: String
      /// `idle`, `waiting`, `connecting`, `catching-up`, `live`, `unsubscribed` or `refused`.
      var state: String
      var reason = ""

      var isConnected: Bool { ["catching-up", "live", "unsubscribed"].contains(state) }
    }

    /// `starting`, `failed`, `noMesh`, `waitingForProxy`, `idle`, `connecting` or `ready`.
    var state = "ready"
    /// The missing parts, in sentences; empty if nothing is missing.
    var reason = ""
    var relays: [Relay] = []
  }

  /// A unit, as systemd reports it.
  struct Unit: Sendable, Equatable {
    var name: String
    /// `loaded`, `not-found`, `masked`, `bad-setting`, …
    var load = "loaded"
    /// `active`, `inactive`, `failed`, …
    var active = "active"
    /// `enabled`, `disabled`, `static`, …
    var file = "enabled"
    /// The bits of `AmbientCapabilities`; nil if the unit is not a service.
    var capabilities: UInt64?

    var isInstalled: Bool { load != "not-found" }

    /// Whether the unit is installed, or still active after its removal.
    var isPresent: Bool { isInstalled || active == "active" }
  }

  /// The relation of the caller to the group that may use the service.
  enum Membership: Sendable, Equatable {
    case root
    case member
    /// The user was added to the group after this login.
    case addedSinceLogin
    /// The user may read state and metrics.
    case viewer
    case outsider
    case noGroup
  }

  /// The file system of the state directory.
  struct Disk: Sendable, Equatable {
    var freeBytes: UInt64
    var isReadOnly = false
  }

  /// The keys in the state directory.
  enum Keys: Sendable, Equatable {
    /// Only root and the service may read the state directory.
    case notPermitted
    case noDirectory
    /// The names of the key files, and of those that other users can read.
    case found([String], exposed: [String])
  }

  /// The error of the connection to the bus; nil if it works.
  var busError: String?
  /// Whether the bus has a policy file for the service.
  var hasPolicy = true
  var user = "user"
  var membership = Membership.member
  /// Nil if the service is not running, or does not answer.
  var service: Service? = Service()
  /// Nil if `earshot-nostrd` is not running, or the caller may not read its state.
  var uplink: Uplink?
  /// The error of a service that is on the bus but does not answer; nil if it answers or is not on the bus.
  var serviceError: String?
  /// The units that exist in a complete installation, by name; nil if systemd does not run.
  var units: [Unit]? = []
  var isBluetoothdRunning = true
  var blueZ: BlueZVersion? = BlueZVersion(5, 82)
  var configuration = DaemonConfiguration()
  /// Whether bluetoothd reads battery levels; nil if systemd does not know its command line.
  var readsBattery: Bool? = false
  var adapters: [Adapter] = [Adapter()]
  var kernel: KernelVersion? = KernelVersion(6, 12, 48)
  /// Seconds since 1970-01-01 UTC.
  var time: Int64 = 1_800_000_000
  var isClockSynchronised = true
  /// Nil if the state directory does not exist.
  var disk: Disk? = Disk(freeBytes: 1 << 30)
  var keys = Keys.found(["store.key"], exposed: [])
  /// The number of files that name a trusted issuer; nil if the folder cannot be read.
  var issuers: Int? = 1
  /// Whether the package with the checker is installed.
  var hasChecker = false

  func unit(_ name: String) -> Unit? { units?.first { $0.name == name } }
}

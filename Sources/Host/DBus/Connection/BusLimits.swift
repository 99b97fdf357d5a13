/// The limits of a connection.
public struct BusLimits: Sendable {
  /// The largest body of a message that is sent. The system bus cuts off a program that sends over 32 MiB, header and all;
  /// what may be larger goes as a memory file.
  public var sentMessage = (32 << 20) - (64 << 10)
  /// The largest message that is received, and all received ones that are not handled yet.
  public var received = 80 << 20
  /// Bytes that wait to be taken by the bus; what would exceed that is refused.
  public var outgoing = 64 << 20
  /// Calls that wait for their answer. The system bus itself allows 128 and answers further ones with `LimitsExceeded`.
  public var pendingCalls = 1024
  /// Calls of one program that wait until the bus has said whose program it is.
  public var waitingCalls = 256
  /// Programs about which the bus is being asked.
  public var waitingCallers = 256
  /// Maximum number of connections that receive signals about objects of the group.
  public var watchers = 32
  /// Maximum number of such connections of one user.
  public var watchersOfUser = 16
  /// Values in one received message, all levels counted: a message of a few megabytes can name millions of values.
  public var values = 1 << 20
  /// Files of callers that are read at one time; a file that does not answer keeps its place until it does.
  public var filesAtOnce = 4
  /// Of these, those of one user.
  public var filesOfUser = 2
  /// Files of callers that wait to be read.
  public var waitingFiles = 16
  /// Of these, those of one user.
  public var waitingFilesOfUser = 8
  /// How long a caller's file may take, the wait included.
  public var fileTime = Duration.seconds(10)
  /// What a program may ask for in a second, over time, where there is a rule of access: a call takes one point of that, one for
  /// everything there is 16, and each 4 KiB of an answer one more. One that was quiet may spend five seconds' points at once. bluetoothd's calls are
  /// not counted.
  public var callsPerSecond = 2000
  /// Messages handled in one turn of the loop, and how long they may take together: then the loop's other work has its turn.
  public var messagesPerTurn = 64
  public var turn = Duration.milliseconds(2)

  public init() {}
}

/// The limits of a connection.
public struct BusLimits: Sendable {
  /// Maximum body of a sent message, in bytes. The system bus disconnects a program that sends more than 32 MiB,
  /// including the header. Larger data is passed in a memory file.
  public var sentMessage = (32 << 20) - (64 << 10)
  /// Maximum bytes of a received message, and of all received messages that are not handled yet.
  public var received = 80 << 20
  /// Maximum unsent bytes; a message beyond it is refused.
  public var outgoing = 64 << 20
  /// Maximum pending calls. The system bus allows 128 and answers further ones with `LimitsExceeded`.
  public var pendingCalls = 1024
  /// Maximum calls of one program that wait for its credentials.
  public var waitingCalls = 256
  /// Maximum programs with a pending request for credentials.
  public var waitingCallers = 256
  /// Maximum connections that receive signals about objects of the group.
  public var watchers = 32
  /// Maximum connections of one user that receive signals about objects of the group.
  public var watchersOfUser = 16
  /// Maximum values in one received message, on all levels: a message of a few megabytes can contain millions.
  public var values = 1 << 20
  /// Maximum files of callers that are read at one time; a file that does not answer counts until it does.
  public var filesAtOnce = 4
  /// Maximum files of one user's programs that are read at one time.
  public var filesOfUser = 2
  /// Maximum files of callers that wait to be read.
  public var waitingFiles = 16
  /// Maximum files of one user's programs that wait to be read.
  public var waitingFilesOfUser = 8
  /// Time limit for a caller's file, including the wait.
  public var fileTime = Duration.seconds(10)
  /// The refill rate of a program's call budget, in points, if there is an access rule. A call costs 1 point, or 16 if
  /// it lists all objects; each 4 KiB of an answer costs one more. The budget holds five seconds of refill.
  /// bluetoothd's calls are not counted.
  public var callsPerSecond = 2000
  /// Maximum messages that are handled in one loop iteration, and maximum time for handling them.
  public var messagesPerTurn = 64
  public var turn = Duration.milliseconds(2)

  public init() {}
}

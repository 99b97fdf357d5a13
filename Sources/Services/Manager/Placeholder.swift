// Manager

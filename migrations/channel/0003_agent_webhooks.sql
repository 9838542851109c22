CREATE TABLE `agent_events` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`agent` text NOT NULL,
	`since` integer NOT NULL,
	`event` text NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `agent_events_at` ON `agent_events` (`at`);